"""The document /admin/v2/broker-stats/topics: every topic of a broker with its clients, nested by bundle."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from evenkeel.fleet.catalogue import BundleCatalogue
from evenkeel.fleet.layout import Topic
from evenkeel.fleet.traffic import TopicLoad, TrafficModel

CLIENT_ADDRESS = "/127.0.0.1:50000"
CLIENT_VERSION = "Pulsar-CPP-v4.2.0"
DECIMALS = 3
RECEIVER_QUEUE = 1000
SIMULATED_RETENTION_S = 60

Json = dict[str, Any]


def broker_topics(
    bundles: Iterable[str], catalogue: BundleCatalogue, traffic: TrafficModel, started_s: float
) -> dict[str, Json]:
    """Namespace → range → persistent → topic → statistics, for the bundles that a broker owns."""
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
    """The statistics of one topic."""
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
