"""The JSON documents that brokers serve over HTTP, field for field as in Pulsar 4.2.4.

/admin/v2/broker-stats/topics              broker_topics
/admin/v2/broker-stats/metrics             metrics
/admin/v2/brokers/configuration/runtime    runtime_configuration
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from evenkeel.fleet.documents import Json
from evenkeel.fleet.layout import BundleCatalogue, Topic
from evenkeel.fleet.settings import FleetSettings, LoadManagerKind, SessionExpiredPolicy
from evenkeel.fleet.traffic import BrokerUsage, TopicLoad, TrafficModel

CLIENT_ADDRESS = "/127.0.0.1:50000"
CLIENT_VERSION = "Pulsar-CPP-v4.2.0"
DECIMALS = 3
RECEIVER_QUEUE = 1000
SIMULATED_RETENTION_S = 60
MILLISECONDS_PER_S = 1000
SECONDS_PER_MINUTE = 60


def runtime_configuration(
    settings: FleetSettings, dynamic: Mapping[str, str], policy: SessionExpiredPolicy
) -> dict[str, str]:
    """Return a broker's configuration as strings; dynamic values from /admin/configuration take precedence."""
    return {
        "clusterName": settings.cluster,
        "loadManagerClassName": settings.load_manager.class_name,
        "loadManagerServiceUnitStateTableViewClassName": settings.table_view_class_name,
        "loadBalancerServiceUnitTableViewSyncer": "None",
        "loadBalancerEnabled": "true",
        "loadBalancerSheddingEnabled": "true",
        "loadBalancerAutoBundleSplitEnabled": "true",
        "loadBalancerSheddingBundlesWithPoliciesEnabled": "false",
        "loadBalancerTransferEnabled": "true",
        "loadBalancerMultiPhaseBundleUnload": "true",
        "loadBalancerBrokerMaxTopics": "50000",
        "loadBalancerReportUpdateThresholdPercentage": f"{settings.report_threshold_percent:g}",
        "loadBalancerReportUpdateMinIntervalMillis": str(int(settings.report_interval_s * MILLISECONDS_PER_S)),
        "loadBalancerReportUpdateMaxIntervalMinutes": str(int(settings.report_max_interval_s / SECONDS_PER_MINUTE)),
        "loadBalancerServiceUnitStateMonitorIntervalInSeconds": str(int(settings.monitor_interval_s)),
        "loadBalancerInFlightServiceUnitStateWaitingTimeInMillis": str(
            int(settings.in_flight_limit_s * MILLISECONDS_PER_S)
        ),
        "loadBalancerServiceUnitStateTombstoneDelayTimeInSeconds": str(int(settings.tombstone_delay_s)),
        "namespaceBundleUnloadingTimeoutMs": str(int(settings.admin_timeout_s * MILLISECONDS_PER_S)),
        "defaultNamespaceBundleSplitAlgorithm": "range_equally_divide",
        "failureDomainsEnabled": "false",
        "preferLaterVersions": "false",
        "zookeeperSessionExpiredPolicy": policy.value,
        "metadataStoreSessionTimeoutMillis": str(int(settings.session_timeout_s * MILLISECONDS_PER_S)),
        **dynamic,
    }


def broker_topics(
    bundles: Iterable[str], catalogue: BundleCatalogue, traffic: TrafficModel, started_s: float
) -> dict[str, Json]:
    """Return namespace → range → persistent → topic → statistics for the given bundles."""
    since = datetime.fromtimestamp(started_s, UTC).isoformat().replace("+00:00", "Z")
    document: dict[str, Json] = {}
    for bundle in bundles:
        indexes = catalogue.topic_indexes_of(bundle)
        if not indexes:
            continue
        namespace, _, bundle_range = bundle.rpartition("/")
        document.setdefault(namespace, {})[bundle_range] = {
            "persistent": {
                catalogue.topics[index].name: topic_stats(catalogue.topics[index], load, since)
                for index, load in zip(indexes, traffic.topic_loads(indexes), strict=True)
            }
        }
    return document


def topic_stats(topic: Topic, load: TopicLoad, since: str) -> Json:
    """Return the statistics of one topic with its clients."""
    size = round(topic.message_bytes, DECIMALS)
    bytes_in = int(load.throughput_in * SIMULATED_RETENTION_S)
    return {
        "publishers": [_publisher(topic, load, number, size, since) for number in range(topic.producers)],
        "replication": {},
        "subscriptions": {f"s{number}": _subscription(topic, load, since) for number in range(topic.subscriptions)},
        "producerCount": topic.producers,
        "averageMsgSize": size,
        "msgRateIn": round(load.message_rate_in, DECIMALS),
        "msgRateOut": round(load.message_rate_out, DECIMALS),
        "msgInCount": int(load.message_rate_in * SIMULATED_RETENTION_S),
        "bytesInCount": bytes_in,
        "msgOutCount": int(load.message_rate_out * SIMULATED_RETENTION_S),
        "bytesOutCount": int(load.throughput_out * SIMULATED_RETENTION_S),
        "msgThroughputIn": round(load.throughput_in, DECIMALS),
        "msgThroughputOut": round(load.throughput_out, DECIMALS),
        "storageSize": bytes_in,
        "backlogSize": 0,
        "pendingAddEntriesCount": 0,
        "filteredEntriesCount": 0,
    }


def _publisher(topic: Topic, load: TopicLoad, number: int, size: float, since: str) -> Json:
    return {
        "msgRateIn": round(load.message_rate_in / topic.producers, DECIMALS),
        "msgThroughputIn": round(load.throughput_in / topic.producers, DECIMALS),
        "averageMsgSize": size,
        "address": CLIENT_ADDRESS,
        "producerId": number,
        "producerName": f"fleet-{topic.hash:08x}-{number}",
        "connectedSince": since,
        "clientVersion": CLIENT_VERSION,
        "metadata": {},
    }


def _subscription(topic: Topic, load: TopicLoad, since: str) -> Json:
    rate = round(load.message_rate_out / topic.subscriptions, DECIMALS)
    throughput = round(load.throughput_out / topic.subscriptions, DECIMALS)
    return {
        "consumers": [
            _consumer(topic, rate, throughput, number, since) for number in range(topic.consumers_per_subscription)
        ],
        "msgBacklog": 0,
        "msgRateExpired": 0.0,
        "msgRateOut": rate,
        "messageAckRate": rate,
        "msgThroughputOut": throughput,
        "msgRateRedeliver": 0.0,
        "numberOfEntriesSinceFirstNotAckedMessage": 0,
        "totalNonContiguousDeletedMessagesRange": 0,
        "type": "Shared",
        "filterProcessedMsgCount": 0,
        "filterAcceptedMsgCount": 0,
        "filterRejectedMsgCount": 0,
        "filterRescheduledMsgCount": 0,
        "blockedSubscriptionOnUnackedMsgs": False,
        "unackedMessages": 0,
    }


def _consumer(topic: Topic, rate: float, throughput: float, number: int, since: str) -> Json:
    share = topic.consumers_per_subscription
    return {
        "address": CLIENT_ADDRESS,
        "consumerName": f"{topic.hash:08x}-{number}",
        "availablePermits": RECEIVER_QUEUE,
        "connectedSince": since,
        "msgRateOut": round(rate / share, DECIMALS),
        "msgThroughputOut": round(throughput / share, DECIMALS),
        "msgRateRedeliver": 0.0,
        "avgMessagesPerEntry": 1,
        "messageAckRate": round(rate / share, DECIMALS),
        "unackedMessages": 0,
        "blockedConsumerOnUnackedMsgs": False,
        "clientVersion": CLIENT_VERSION,
        "metadata": {},
    }


def metrics(broker_id: str, usage: BrokerUsage, kind: LoadManagerKind, assignments: int) -> list[Json]:
    """Return the load-balancing metrics of a broker; usages are percentages."""
    resources = {
        "brk_lb_bandwidth_in_usage": usage.bandwidth_in.percent,
        "brk_lb_bandwidth_out_usage": usage.bandwidth_out.percent,
        "brk_lb_cpu_usage": usage.cpu.percent,
        "brk_lb_directMemory_usage": usage.direct_memory.percent,
        "brk_lb_memory_usage": usage.memory.percent,
    }
    host = broker_id.rpartition(":")[0]
    entries = [_metric(host, resources, metric="loadBalancing")]
    if kind is LoadManagerKind.MODULAR:
        return entries
    share = {"brk_lb_resource_usage": usage.highest_share}
    entries += [_metric(host, share, feature=feature, metric="loadBalancing") for feature in ("max_ema", "max")]
    entries += [
        _metric(host, {"brk_lb_assign_broker_breakdown_total": count}, metric="assign", result=result)
        for result, count in (("Success", assignments), ("Skip", 0), ("Failure", 0))
    ]
    ignored = {"brk_lb_ignored_ack_total": 0, "brk_lb_ignored_send_total": 0}
    return [*entries, _metric(host, ignored, metric="bundleUnloading")]


def _metric(host: str, figures: Mapping[str, float], **dimensions: str) -> Json:
    return {"metrics": dict(figures), "dimensions": {"broker": host, **dimensions}}
