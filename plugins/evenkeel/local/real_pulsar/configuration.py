"""The configuration of brokers and bookie: small, quick to start, and quick to report load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evenkeel.adapters.cluster.kind import EXTENSIBLE_CLASS, VIEWS
from evenkeel.adapters.cluster.registrations import MODULAR_CLASS
from evenkeel.local.real_pulsar.jars import DEFAULT_VERSION
from evenkeel.model.snapshot import LoadManager

SMALL_BROKER: Mapping[str, str] = {
    # There is one bookie.
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
    # Report load within seconds instead of minutes: on one machine nobody wants to wait for it.
    "statsUpdateFrequencyInSecs": "5",
    "loadBalancerReportUpdateMinIntervalMillis": "2000",
    "loadBalancerReportUpdateMaxIntervalMinutes": "1",
    "loadBalancerResourceQuotaUpdateIntervalMinutes": "1",
    # Brokers cannot find out the speed of a virtual network.
    "loadBalancerOverrideBrokerNicSpeedGbps": "1",
}


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker listens; each has an address of its own, since isolation policies match hosts, not ports."""

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
    """A cluster of real brokers; `broker_settings` are lines of broker.conf over those of `SMALL_BROKER`."""

    kind: LoadManager = LoadManager.EXTENSIBLE
    brokers: int = 3
    cluster: str = "real"
    version: str = DEFAULT_VERSION
    broker_settings: Mapping[str, str] = field(default_factory=dict)


def load_manager_settings(kind: LoadManager) -> Mapping[str, str]:
    """The lines of broker.conf that choose the load manager."""
    if kind is LoadManager.MODULAR:
        return {"loadManagerClassName": MODULAR_CLASS}
    view_class = next(name for name, found in VIEWS.items() if found is kind)
    return {
        "loadManagerClassName": EXTENSIBLE_CLASS,
        "loadManagerServiceUnitStateTableViewClassName": view_class,
    }


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
    """The bookkeeper.conf of the bookie; its data need not survive a power cut, so it never waits for the disk."""
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
