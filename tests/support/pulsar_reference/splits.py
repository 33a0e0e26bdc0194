"""Which bundles Pulsar's own split tasks would split, and its flow_or_qps algorithm, for the recorded cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.eligibility import namespace_of
from support.pulsar_reference.reports import BundleStats

MIB = 1 << 20
FEWEST_TOPICS = 2
SMALLEST_RANGE = 2


class SplitReason(StrEnum):
    """The condition that a bundle meets, in the order in which Pulsar looks."""

    TOPICS = "Topics"
    SESSIONS = "Sessions"
    MSG_RATE = "MsgRate"
    BANDWIDTH = "Bandwidth"


@dataclass(frozen=True, slots=True)
class SplitView:
    """What a broker of the extensible manager knows when it looks for bundles to split.

    `count_bundles` gives a namespace's bundles, or None where they cannot be counted; `find_boundaries` what the
    split algorithm returns, or None where it fails.
    """

    stats: Mapping[str, BundleStats]
    count_bundles: Callable[[str], int | None]
    find_boundaries: Callable[[str], list[int] | None]
    is_owner: Callable[[str], bool] = lambda bundle: True
    splitting: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Split:
    """A bundle to split, at one position, into two children that stay where they are."""

    bundle: str
    boundary: int
    reason: SplitReason

    @property
    def children(self) -> tuple[str, str]:
        lower, upper = range_of(self.bundle)
        return f"0x{lower:08x}_0x{self.boundary:08x}", f"0x{self.boundary:08x}_0x{upper:08x}"


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """The decision of one run, how many bundles failed, and the hit counts for the next run."""

    splits: tuple[Split, ...]
    failures: int = 0
    hits: Mapping[str, int] = field(default_factory=dict)


def range_of(bundle: str) -> tuple[int, int]:
    """The ends of a bundle's range, in either case of its hexadecimal digits."""
    lower, _, upper = bundle.rpartition("/")[2].partition("_")
    return int(lower, 16), int(upper, 16)


def find_split_reason(stats: BundleStats, settings: PulsarSettings) -> SplitReason | None:
    """The first condition that a bundle meets; None if it meets none."""
    limits = settings.split_thresholds
    if stats.topics > limits.topics:
        return SplitReason.TOPICS
    if 0 < limits.sessions < stats.sessions:
        return SplitReason.SESSIONS
    if stats.msg_rate > limits.msg_rate:
        return SplitReason.MSG_RATE
    if stats.throughput > limits.bandwidth_mbytes * MIB:
        return SplitReason.BANDWIDTH
    return None


def find_splits(view: SplitView, hits: Mapping[str, int], settings: PulsarSettings) -> SplitOutcome:
    """Find the bundles that a broker of the extensible manager splits; `hits` come from the previous run."""
    counted = {bundle: count for bundle, count in hits.items() if bundle in view.stats}
    splits: list[Split] = []
    chosen: Counter[str] = Counter()
    failures = 0
    for bundle, stats in view.stats.items():
        if stats.topics < FEWEST_TOPICS or not view.is_owner(bundle):
            continue
        lower, upper = range_of(bundle)
        if upper - lower < SMALLEST_RANGE:
            failures += 1
            continue
        reason = find_split_reason(stats, settings)
        counted[bundle] = counted.get(bundle, 0) + 1 if reason else 0
        if reason is None or counted[bundle] <= settings.namespace_bundle_split_condition_hit_count_threshold:
            continue
        found = _find_boundary(bundle, view, chosen, settings)
        if isinstance(found, int):
            splits.append(Split(bundle, found, reason))
            chosen[namespace_of(bundle)] += 1
            counted[bundle] = 0
        failures += found is _Refusal.FAILED
        # Pulsar compares after a split, so a limit of 0 never stops it.
        if isinstance(found, int) and len(splits) == settings.max_number_of_bundles_to_split_per_cycle:
            break
    return SplitOutcome(tuple(splits), failures, {bundle: count for bundle, count in counted.items() if count})


class _Refusal(Enum):
    """Why a bundle that met its condition long enough is not split; only a failure is counted."""

    NOT_NOW = 0
    FAILED = 1


def _find_boundary(bundle: str, view: SplitView, chosen: Counter[str], settings: PulsarSettings) -> int | _Refusal:
    namespace = namespace_of(bundle)
    count = view.count_bundles(namespace)
    if count is None:
        return _Refusal.FAILED
    if count + chosen[namespace] >= settings.namespace_maximum_bundles or _has_conflict(bundle, view.splitting):
        return _Refusal.NOT_NOW
    boundaries = view.find_boundaries(bundle)
    return boundaries[0] if boundaries is not None and len(boundaries) == 1 else _Refusal.FAILED


def _has_conflict(bundle: str, splitting: Iterable[str]) -> bool:
    """Whether a bundle that splits now shares a range end; Pulsar compares the texts, so the spelling counts."""
    lower, _, upper = bundle.rpartition("/")[2].partition("_")
    namespace = namespace_of(bundle)
    return any(
        parent.startswith(namespace)
        and (parent.rpartition("/")[2].startswith(lower) or parent.rpartition("/")[2].endswith(upper))
        for parent in splitting
    )


def find_modular_splits(
    stats_by_broker: Mapping[str, Mapping[str, BundleStats]],
    long_term: Mapping[str, BundleStats],
    count_bundles: Callable[[str], int | None],
    settings: PulsarSettings,
) -> dict[str, str]:
    """The bundles that the modular leader would split, with their owners.

    Topics and sessions are those of now, rates those of the long term; a bundle without long-term data has none.
    """
    found: dict[str, str] = {}
    chosen: Counter[str] = Counter()
    for broker, bundles in stats_by_broker.items():
        for bundle, stats in bundles.items():
            if (
                stats.topics < FEWEST_TOPICS
                or find_split_reason(_with_rates(stats, long_term, bundle), settings) is None
            ):
                continue
            namespace = namespace_of(bundle)
            count = count_bundles(namespace)
            if count is not None and count + chosen[namespace] < settings.namespace_maximum_bundles:
                found[bundle] = broker
                chosen[namespace] += 1
    return found


def _with_rates(stats: BundleStats, long_term: Mapping[str, BundleStats], bundle: str) -> BundleStats:
    rates = long_term.get(bundle, BundleStats())
    return BundleStats(
        msg_rate_in=rates.msg_rate_in,
        msg_rate_out=rates.msg_rate_out,
        throughput_in=rates.throughput_in,
        throughput_out=rates.throughput_out,
        topics=stats.topics,
        producers=stats.producers,
        consumers=stats.consumers,
    )


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """A topic's position on the ring, and its messages and bytes per second, in and out together."""

    hash: int
    msg_rate: float
    throughput: float


def flow_or_qps_equally_divide(
    topics: Iterable[TopicTraffic], most_msg_rate: float, most_bytes: float, margin: float
) -> list[int]:
    """Positions that leave each part within both limits where one topic alone does not exceed them; maybe several.

    None where the bundle has fewer than two topics with traffic, or lies less than `margin` (0.1 = 10 %) above both
    limits. Pulsar's extensible manager refuses the result unless it is exactly one position.
    """
    busy = {topic.hash: topic for topic in topics if topic.msg_rate > 0 or topic.throughput > 0}
    ordered = [busy[position] for position in sorted(busy)]
    msg_rate = sum(topic.msg_rate for topic in ordered)
    throughput = sum(topic.throughput for topic in ordered)
    is_large = msg_rate >= most_msg_rate * (1 + margin) or throughput >= most_bytes * (1 + margin)
    if len(ordered) < FEWEST_TOPICS or not is_large:
        return []
    cuts: list[int] = []
    before = ordered[0]
    msg_rate, throughput = before.msg_rate, before.throughput
    for topic in ordered[1:]:
        if msg_rate + topic.msg_rate > most_msg_rate or throughput + topic.throughput > most_bytes:
            cuts.append(before.hash + (topic.hash - before.hash) // 2 + 1)
            msg_rate = throughput = 0.0
        msg_rate += topic.msg_rate
        throughput += topic.throughput
        before = topic
    return cuts
