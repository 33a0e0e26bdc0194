"""The JSON documents that brokers keep in ZooKeeper, field for field as in Pulsar 4.2.4."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.fleet.layout import format_boundaries
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.fleet.traffic import BrokerUsage, BundleLoad, Resource

Json = dict[str, Any]


def encode(document: Any) -> bytes:
    """Encode a document as Pulsar does, without spaces."""
    return json.dumps(document, separators=(",", ":")).encode()


def service_url(broker_id: str) -> str:
    """Return the address that Pulsar clients would connect to."""
    return f"pulsar://{broker_id.rpartition(':')[0]}:6650"


def lookup_data(broker_id: str, web_url: str, started_ms: int, version: str) -> Json:
    """Return the registration of a broker with the extensible load manager; it contains no load."""
    return {
        "webServiceUrl": web_url,
        "pulsarServiceUrl": service_url(broker_id),
        "advertisedListeners": {},
        "protocols": {},
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        "loadManagerClassName": LoadManagerKind.EXTENSIBLE.class_name,
        "startTimestamp": started_ms,
        "brokerVersion": version,
        "properties": {},
    }


def local_broker_data(
    broker_id: str,
    web_url: str,
    started_ms: int,
    now_ms: int,
    usage: BrokerUsage,
    stats: Mapping[str, BundleLoad],
    gains: Sequence[str],
    losses: Sequence[str],
    version: str,
) -> Json:
    """Return the load report of a broker with the modular load manager."""
    load = usage.load
    return {
        "webServiceUrl": web_url,
        "pulsarServiceUrl": service_url(broker_id),
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        "cpu": _resource(usage.cpu),
        "memory": _resource(usage.memory),
        "directMemory": _resource(usage.direct_memory),
        "bandwidthIn": _resource(usage.bandwidth_in),
        "bandwidthOut": _resource(usage.bandwidth_out),
        "msgThroughputIn": load.throughput_in,
        "msgThroughputOut": load.throughput_out,
        "msgRateIn": load.message_rate_in,
        "msgRateOut": load.message_rate_out,
        "lastUpdate": now_ms,
        "lastStats": {bundle: _bundle_stats(stats[bundle]) for bundle in stats},
        "numTopics": load.topics,
        "numBundles": len(stats),
        "numConsumers": load.consumers,
        "numProducers": load.producers,
        "bundles": list(stats),
        "lastBundleGains": list(gains),
        "lastBundleLosses": list(losses),
        "brokerVersionString": version,
        "protocols": {},
        "advertisedListeners": {},
        "loadManagerClassName": LoadManagerKind.MODULAR.class_name,
        "startTimestamp": started_ms,
        "maxResourceUsage": usage.highest_share,
        "loadReportType": "LocalBrokerData",
    }


def _resource(resource: Resource) -> Json:
    return {"usage": resource.usage, "limit": resource.limit}


def _bundle_stats(load: BundleLoad) -> Json:
    return {
        "msgRateIn": load.message_rate_in,
        "msgThroughputIn": load.throughput_in,
        "msgRateOut": load.message_rate_out,
        "msgThroughputOut": load.throughput_out,
        "consumerCount": load.consumers,
        "producerCount": load.producers,
        "topics": load.topics,
        "cacheSize": int(load.throughput_in),
    }


def zeroed_time_average() -> Json:
    """Return the averages that a modular broker starts with."""
    return {
        f"{term}Msg{figure}": 0.0
        for term in ("shortTerm", "longTerm")
        for figure in ("ThroughputIn", "ThroughputOut", "RateIn", "RateOut")
    }


def leader(broker_id: str, web_url: str) -> Json:
    """Return the leader's node; both load managers use the same fields."""
    return {"brokerId": broker_id, "serviceUrl": web_url}


def ephemeral_ownership(broker_id: str, web_url: str) -> Json:
    """Return the ownership node of a bundle for the modular load manager."""
    return {
        "nativeUrl": service_url(broker_id),
        "httpUrl": web_url,
        "disabled": False,
        "advertisedListeners": {},
    }


def bundles_data(points: Sequence[int]) -> Json:
    return {"boundaries": format_boundaries(points), "numBundles": len(points) - 1}


def local_policies(points: Sequence[int]) -> Json:
    return {"bundles": bundles_data(points), "migrated": False}


def tenant(cluster: str) -> Json:
    return {"adminRoles": [], "allowedClusters": [cluster]}


def policies(cluster: str, points: Sequence[int]) -> Json:
    """Return the default policies of a namespace."""
    return {
        "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
        "replication_clusters": [cluster],
        "allowed_clusters": [],
        "bundles": bundles_data(points),
        "backlog_quota_map": {},
        "clusterDispatchRate": {},
        "topicDispatchRate": {},
        "subscriptionDispatchRate": {},
        "replicatorDispatchRate": {},
        "clusterSubscribeRate": {},
        "publishMaxMessageRate": {},
        "latency_stats_sample_rate": {},
        "deleted": False,
        "encryption_required": False,
        "subscription_auth_mode": "None",
        "offload_threshold": -1,
        "offload_threshold_in_seconds": -1,
        "schema_compatibility_strategy": "UNDEFINED",
        "schema_validation_enforced": False,
        "subscription_types_enabled": [],
        "properties": {},
        "migrated": False,
    }


def cluster_data(web_url: str, broker_url: str) -> Json:
    return {
        "serviceUrl": web_url,
        "brokerServiceUrl": broker_url,
        "tlsAllowInsecureConnection": False,
        "brokerClientTlsEnabled": False,
        "brokerClientTlsEnabledWithKeyStore": False,
        "brokerClientTlsKeyStoreType": "JKS",
        "brokerClientTlsTrustStoreType": "JKS",
        "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
    }


def isolation_policies(namespace: str, primaries: Sequence[str], secondaries: Sequence[str]) -> Json:
    """Return one policy that reserves brokers for a namespace; Pulsar matches it against hosts without the port."""
    return {
        f"{namespace.replace('/', '-')}-pool": {
            "namespaces": [re.escape(namespace)],
            "primary": [re.escape(broker.rpartition(":")[0]) for broker in primaries],
            "secondary": [re.escape(broker.rpartition(":")[0]) for broker in secondaries],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "80"},
            },
        }
    }


def failure_domain(broker_ids: Sequence[str]) -> Json:
    return {"brokers": list(broker_ids)}
