"""What brokers and the bookie are told: small, quick to start, and quick to tell their load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evenkeel.model.snapshot import LoadManager
from evenkeel.real_pulsar.kinds import load_manager_settings

SMALL_BROKER: Mapping[str, str] = {
    # One bookie holds everything.
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "managedLedgerCacheSizeMB": "32",
    "bookkeeperNumberOfChannelsPerBookie": "2",
    "numIOThreads": "2",
    "numHttpServerThreads": "8",
    "numExecutorThreadPoolSize": "4",
    "numOrderedExecutorThreads": "2",
    "numCacheExecutorThreadPoolSize": "2",
    "dispatcherMaxReadBatchSize": "50",
    "functionsWorkerEnabled": "false",
    "transactionCoordinatorEnabled": "false",
    "topicLevelPoliciesEnabled": "false",
    "webSocketServiceEnabled": "false",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "brokerShutdownTimeoutMs": "10000",
    # Load is told at once rather than every few minutes: nobody wants to wait for it on one machine.
    "statsUpdateFrequencyInSecs": "5",
    "loadBalancerReportUpdateMinIntervalMillis": "2000",
    "loadBalancerReportUpdateMaxIntervalMinutes": "1",
    "loadBalancerResourceQuotaUpdateIntervalMinutes": "1",
    # A machine's virtual network has no speed that brokers could find out.
    "loadBalancerOverrideBrokerNicSpeedGbps": "1",
}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker listens; each has an address of its own, since isolation policies know hosts only."""

    host: str
    web_port: int
    service_port: int

    @property
    def broker_id(self) -> str:
        return f"{self.host}:{self.web_port}"

    @property
    def web_url(self) -> str:
        return f"http://{self.broker_id}"

    @property
    def service_url(self) -> str:
        return f"pulsar://{self.host}:{self.service_port}"


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """How a cluster of real brokers looks; `broker_settings` are lines of broker.conf on top of the small ones."""

    kind: LoadManager = LoadManager.EXTENSIBLE
    brokers: int = 3
    cluster: str = "real"
    broker_settings: Mapping[str, str] = field(default_factory=dict)


def broker_conf(shape: ClusterShape, address: BrokerAddress, zookeeper: str) -> str:
    """The broker.conf of one broker."""
    own = {
        "clusterName": shape.cluster,
        "metadataStoreUrl": f"zk:{zookeeper}",
        "configurationMetadataStoreUrl": f"zk:{zookeeper}",
        "bindAddress": address.host,
        "advertisedAddress": address.host,
        "webServicePort": str(address.web_port),
        "brokerServicePort": str(address.service_port),
    }
    return _lines({**SMALL_BROKER, **load_manager_settings(shape.kind), **own, **shape.broker_settings})


def bookie_conf(home: Path, host: str, port: int, zookeeper: str) -> str:
    """The bookkeeper.conf of the one bookie; it keeps nothing past a power cut, so it need not wait for the disk."""
    return _lines(
        {
            "bookiePort": str(port),
            "advertisedAddress": host,
            "listeningInterface": "lo",
            "allowLoopback": "true",
            "metadataServiceUri": f"metadata-store:zk:{zookeeper}",
            "journalDirectories": str(home / "journal"),
            "ledgerDirectories": str(home / "ledgers"),
            "indexDirectories": str(home / "ledgers"),
            "journalSyncData": "false",
            "journalMaxGroupWaitMSec": "1",
            "journalPreAllocSizeMB": "4",
            "journalMaxSizeMB": "64",
            "skipListSizeLimit": str(16 * 1024 * 1024),
            "diskUsageThreshold": "0.99",
            "diskUsageWarnThreshold": "0.99",
            "minUsableSizeForIndexFileCreation": "1048576",
            "httpServerEnabled": "false",
            "nettyMaxFrameSizeBytes": "5253120",
        }
    )


def _lines(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())
