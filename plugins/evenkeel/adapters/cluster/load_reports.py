"""What brokers report about their load: resources, bundles and topics, by the kind of cluster.

Modular brokers write their reports into their registration nodes. Extensible ones are asked over HTTP, and report
percentages of limits that only the settings can tell.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from evenkeel.adapters.brokers.broker_http import HttpAnswer, clock_offsets
from evenkeel.adapters.cluster.json_documents import JsonObject, decode_json, refuse
from evenkeel.adapters.cluster.registrations import Registration
from evenkeel.adapters.cluster.source import ClusterSource
from evenkeel.model.bundles import BundleRange
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings

DEFAULT_STATS_PERIOD_S = 60.0
TOPICS_PATH = "/admin/v2/broker-stats/topics"
METRICS_PATH = "/admin/v2/broker-stats/metrics"
# Assumed where the settings say nothing of a broker: all brokers are equal, so shares come out right.
NOMINAL_CPU_LIMIT_PERCENT = 100.0
NOMINAL_NIC_KBPS = 10_000_000.0
CPU_PERCENT_PER_CORE = 100.0
KBPS_PER_GBPS = 1_000_000.0
_USAGE_METRIC = "brk_lb_cpu_usage"
# 2100-01-01: anything later is not a time in milliseconds.
LATEST_TIME_MS = 4_102_444_800_000
_RESOURCES = {
    "cpu": ("cpu_usage_percent", "cpu_limit_percent"),
    "memory": ("memory_usage_mib", "memory_limit_mib"),
    "directMemory": ("direct_memory_usage_mib", "direct_memory_limit_mib"),
    "bandwidthIn": ("bandwidth_in_usage_kbps", "bandwidth_in_limit_kbps"),
    "bandwidthOut": ("bandwidth_out_usage_kbps", "bandwidth_out_limit_kbps"),
}


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
    """All that one broker reported; its figures are not newer than `made_at` (or the change `zxid`).

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


def parse_modular_reports(registrations: Sequence[Registration]) -> dict[str, BrokerReport]:
    """The load report of every broker that has written one."""
    return {r.broker_id: _parse_report(r) for r in registrations if r.document.figure("lastUpdate", 0.0) > 0}


def _parse_report(registration: Registration) -> BrokerReport:
    document = registration.document
    updated_ms = document.figure("lastUpdate")
    if updated_ms > LATEST_TIME_MS:
        refuse(f"{document.origin}: lastUpdate = {updated_ms:.0f} is not a time in milliseconds")
    bundles: dict[str, dict[BundleRange, Load]] = {}
    for name, stats in document.object("lastStats").objects():
        namespace, _, text = name.rpartition("/")
        bundles.setdefault(namespace, {})[parse_range(text, stats.origin)] = _parse_load(stats)
    return BrokerReport(
        broker_id=registration.broker_id,
        made_at=datetime.fromtimestamp(updated_ms / 1000, UTC),
        resources=_parse_resources(document),
        bundles=bundles,
        zxid=registration.mzxid,
    )


def _parse_load(stats: JsonObject) -> Load:
    return Load(
        msg_rate_in=stats.figure("msgRateIn"),
        msg_rate_out=stats.figure("msgRateOut"),
        throughput_in=stats.figure("msgThroughputIn"),
        throughput_out=stats.figure("msgThroughputOut"),
        topics=stats.count("topics"),
        producers=stats.count("producerCount"),
        consumers=stats.count("consumerCount"),
    )


def _parse_resources(document: JsonObject) -> dict[str, float | None]:
    resources: dict[str, float | None] = {}
    for name, (usage, limit) in _RESOURCES.items():
        resource = document.object(name)
        resources[usage] = resource.figure("usage")
        known_limit = resource.number("limit")
        # Pulsar writes -1000.0 for a NIC whose speed it cannot see.
        resources[limit] = known_limit if known_limit > 0 else None
    return resources


@dataclass(frozen=True, slots=True)
class BrokerStatistics:
    """The reports of the brokers that answered, why the others have none, and what the answers say of the time."""

    reports: dict[str, BrokerReport]
    problems: dict[str, str]
    clock_offsets_s: Sequence[float] = ()


def fetch_reports(
    source: ClusterSource,
    registrations: Sequence[Registration],
    settings: Settings,
    now: datetime,
    stats_period_s: float,
) -> BrokerStatistics:
    """Ask every broker for its topics and its resources; one that does not answer both has no report."""
    # All at once, so that a broker that hangs costs its time-out only once.
    answers = source.http.fetch([r.web_url + path for path in (TOPICS_PATH, METRICS_PATH) for r in registrations])
    topics = _parse_all_topics(registrations, answers[: len(registrations)])
    reports, problems = {}, dict(topics.problems)
    for registration, answer in zip(registrations, answers[len(registrations) :], strict=True):
        broker_id = registration.broker_id
        percentages = _parse_metrics(answer, broker_id)
        if percentages is None:
            problems.setdefault(broker_id, answer.problem or f"{METRICS_PATH} has no {_USAGE_METRIC} yet")
        elif broker_id in topics.found:
            reports[broker_id] = BrokerReport(
                broker_id=broker_id,
                made_at=now,
                resources=_to_resources(percentages, broker_id, settings),
                topics=topics.found[broker_id],
                stats_period_s=stats_period_s,
            )
    return BrokerStatistics(reports, problems, topics.clock_offsets_s)


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """Topics by broker and namespace, why some brokers sent none, and what the answers say of the time."""

    found: dict[str, dict[str, tuple[TopicLoad, ...]]]
    problems: dict[str, str]
    clock_offsets_s: Sequence[float]


def fetch_topics(source: ClusterSource, registrations: Sequence[Registration]) -> TopicStatistics:
    """Ask every broker for the topics that it serves."""
    answers = source.http.fetch([r.web_url + TOPICS_PATH for r in registrations])
    return _parse_all_topics(registrations, answers)


def _parse_all_topics(registrations: Sequence[Registration], answers: Sequence[HttpAnswer]) -> TopicStatistics:
    found, problems = {}, {}
    for registration, answer in zip(registrations, answers, strict=True):
        if answer.body is None:
            problems[registration.broker_id] = answer.problem or "no answer"
        else:
            origin = f"broker {registration.broker_id}: {TOPICS_PATH}"
            found[registration.broker_id] = parse_topics(JsonObject.decode(answer.body, origin))
    return TopicStatistics(found, problems, clock_offsets(answers))


def find_brokers_without_capacity(broker_ids: Sequence[str], settings: Settings) -> list[str]:
    """Brokers for which the settings have no capacity."""
    return [b for b in broker_ids if not any(entry.matches(b) for entry in settings.capacity)]


def _parse_metrics(answer: HttpAnswer, broker_id: str) -> JsonObject | None:
    """The entry with the broker's own percentages; None before the load manager has measured any."""
    if answer.body is None:
        return None
    origin = f"broker {broker_id}: {METRICS_PATH}"
    entries = decode_json(answer.body, origin)
    if not isinstance(entries, list):
        refuse(f"{origin} holds no list")
    for entry in entries:
        metrics = JsonObject(entry, origin).object("metrics")
        if metrics.has(_USAGE_METRIC):
            return metrics
    return None


def _to_resources(percentages: JsonObject, broker_id: str, settings: Settings) -> dict[str, float | None]:
    """Usage and limit of what can be balanced; memory, known in percent of an unknown amount, stays unknown."""
    capacity = next((entry for entry in settings.capacity if entry.matches(broker_id)), None)
    cpu_limit = capacity.cores * CPU_PERCENT_PER_CORE if capacity else NOMINAL_CPU_LIMIT_PERCENT
    nic_limit = capacity.nic_gbps * KBPS_PER_GBPS if capacity else NOMINAL_NIC_KBPS
    limits = {
        "cpu": ("percent", cpu_limit, "brk_lb_cpu_usage"),
        "bandwidth_in": ("kbps", nic_limit, "brk_lb_bandwidth_in_usage"),
        "bandwidth_out": ("kbps", nic_limit, "brk_lb_bandwidth_out_usage"),
    }
    resources: dict[str, float | None] = {}
    for name, (unit, limit, metric) in limits.items():
        resources[f"{name}_usage_{unit}"] = percentages.figure(metric) / 100.0 * limit
        resources[f"{name}_limit_{unit}"] = limit
    if capacity is None:
        # A percentage of an unknown network speed is no traffic; what bundles carry is known in bytes anyway.
        resources |= {"bandwidth_in_usage_kbps": None, "bandwidth_out_usage_kbps": None}
    return resources
