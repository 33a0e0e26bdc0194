"""What brokers say about their load, whatever the kind of cluster: resources, bundles and topics."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from evenkeel.adapters.json_documents import JsonObject
from evenkeel.model.bundles import BundleRange
from evenkeel.model.errors import InputError

DEFAULT_STATS_PERIOD_S = 60.0


@dataclass(frozen=True, slots=True)
class Load:
    """Rates per second, throughputs in bytes per second, and sessions."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    throughput_in: float = 0.0
    throughput_out: float = 0.0
    topics: int = 0
    producers: int = 0
    consumers: int = 0

    @classmethod
    def total(cls, loads: Iterable[Load]) -> Load:
        parts = [
            (p.msg_rate_in, p.msg_rate_out, p.throughput_in, p.throughput_out, p.topics, p.producers, p.consumers)
            for p in loads
        ]
        return cls(*map(sum, zip(*parts, strict=True))) if parts else cls()


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """One topic as its broker reports it; `range` is the bundle that the broker keeps it under."""

    name: str
    hash: int
    range: BundleRange
    load: Load


@dataclass(frozen=True, slots=True)
class Change:
    """When something in ZooKeeper last changed; None where nothing tells."""

    zxid: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """All that one broker reported; its figures are of `made_at` (or of the change `zxid`) at the latest.

    Where brokers do not report `bundles`, a bundle's load is the sum of its topics.
    """

    broker_id: str
    made_at: datetime
    resources: Mapping[str, float | None]
    bundles: Mapping[str, Mapping[BundleRange, Load]] | None = None
    topics: Mapping[str, tuple[TopicLoad, ...]] = field(default_factory=dict)
    zxid: int | None = None
    stats_period_s: float = DEFAULT_STATS_PERIOD_S

    @property
    def namespaces(self) -> Iterable[str]:
        """The namespaces of which the broker reports load."""
        return self.topics.keys() if self.bundles is None else self.bundles.keys()

    def may_predate(self, change: Change) -> bool:
        """Whether the broker may have counted before a change, so that disagreeing with it proves nothing."""
        if self.zxid is not None and change.zxid is not None and change.zxid > self.zxid:
            return True
        if change.time_ms is not None:
            # A broker counts once a period and keeps giving out that count, also in reports that it writes after the
            # change; one period more covers the clocks.
            return change.time_ms / 1000 >= self.made_at.timestamp() - 2 * self.stats_period_s
        return False


def parse_topics(document: JsonObject) -> dict[str, tuple[TopicLoad, ...]]:
    """The answer of /admin/v2/broker-stats/topics: namespace → range → domain → topic → statistics."""
    return {namespace: tuple(_topics_of(ranges)) for namespace, ranges in document.objects()}


def _topics_of(ranges: JsonObject) -> Iterable[TopicLoad]:
    for text, domains in ranges.objects():
        bundle_range = parse_range(text, ranges.origin)
        for _, topics in domains.objects():
            for name, stats in topics.objects():
                yield TopicLoad(name, _hash_topic(name, topics), bundle_range, _topic_load(stats))


def _topic_load(stats: JsonObject) -> Load:
    publishers: list[Any] = stats.items_of("publishers")
    subscriptions = stats.object("subscriptions")
    return Load(
        msg_rate_in=stats.figure("msgRateIn"),
        msg_rate_out=stats.figure("msgRateOut"),
        throughput_in=stats.figure("msgThroughputIn"),
        throughput_out=stats.figure("msgThroughputOut"),
        topics=1,
        producers=stats.count("producerCount", len(publishers)),
        consumers=sum(len(subscription.items_of("consumers")) for _, subscription in subscriptions.objects()),
    )


def _hash_topic(name: str, topics: JsonObject) -> int:
    try:
        return zlib.crc32(name.encode())
    except UnicodeEncodeError as error:
        raise InputError(f"{topics.origin}: {name!r} is not a topic", "repair the broker that reports it") from error


def parse_range(text: str, origin: str) -> BundleRange:
    try:
        return BundleRange.parse(text)
    except InputError as error:
        raise InputError(f"{origin}: {error.cause}", error.remedy) from error
