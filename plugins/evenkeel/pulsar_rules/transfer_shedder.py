"""TransferShedder, PIP-192's shedder: pair the fullest broker with the emptiest and move half of their difference.

The leader alone decides each cycle, from what the brokers report: their averaged load and their few largest bundles. It
acts once its condition has held often enough in a row, relieves only a few brokers, and may swap bundles if a single
one would be too large to move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.eligibility import namespace_of

MILLIS = 1000
# A swap is worth its two interruptions only if the fuller broker loses a considerable part of its traffic.
SWAPPED_BROKER_KEEPS_LESS_THAN = 0.75
# Brokers sort the bundles of their reports by load in these steps, so that noise does not reorder them.
THROUGHPUT_STEP = 100_000.0
MSG_RATE_STEP = 100.0
TOPICS_AND_SESSIONS_STEP = 500


class Label(StrEnum):
    """How a cycle ended."""

    SUCCESS = "Success"
    SKIP = "Skip"
    FAILURE = "Failure"


class Reason(StrEnum):
    """Why a bundle is moved, or why none is."""

    OVERLOADED = "Overloaded"
    UNDERLOADED = "Underloaded"
    HIT_COUNT = "HitCount"
    NO_BUNDLES = "NoBundles"
    COOL_DOWN = "CoolDown"
    OUT_DATED_DATA = "OutDatedData"
    NO_LOAD_DATA = "NoLoadData"
    NO_BROKERS = "NoBrokers"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What the leader knows about a broker: averaged load (1 = full), current and averaged bytes per second."""

    load: float
    throughput: float
    throughput_average: float
    updated_at_ms: int


@dataclass(frozen=True, slots=True)
class ReportedBundle:
    """A bundle in a broker's report."""

    name: str
    throughput: float


@dataclass(frozen=True, slots=True)
class LeaderView:
    """The input of a cycle; brokers of equal load are taken in the order of `loads`.

    `live_brokers` is None if the registry did not respond. `top_bundles` returns a broker's report, smallest bundle
    first, or None without one. `can_transfer` takes a bundle, its owner and a destination.
    """

    live_brokers: Collection[str] | None
    loads: Mapping[str, BrokerLoad]
    top_bundles: Callable[[str], Sequence[ReportedBundle] | None]
    recently_unloaded_bundles: Collection[str] = ()
    broker_unloaded_at_ms: Mapping[str, int] = field(default_factory=dict)
    is_owner: Callable[[str, str], bool] = lambda bundle, broker: True
    can_transfer: Callable[[str, str, str], bool] = lambda bundle, source, destination: True


@dataclass(frozen=True, slots=True)
class Unload:
    """A bundle to move; without a destination, placement decides where it goes."""

    source: str
    bundle: str
    destination: str | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class ShedOutcome:
    """The decision of a cycle, the reason if it did nothing, and the hit count for the next cycle."""

    unloads: tuple[Unload, ...]
    label: Label
    reason: Reason
    hits: int
    average: float = 0.0
    std: float = 0.0
    std_after: float = 0.0


def shed_transfers(view: LeaderView, hits: int, settings: PulsarSettings, now_ms: int) -> ShedOutcome:
    """Decide one cycle; `hits` is the count that the previous cycle returned."""
    if view.live_brokers is None:
        return ShedOutcome((), Label.FAILURE, Reason.UNKNOWN, hits)
    unusable = _find_unusable_data(view, settings, now_ms)
    if unusable is not None:
        return ShedOutcome((), Label.SKIP, unusable, hits)
    usable = [each.load for each in view.loads.values() if not _is_stale(each, settings, now_ms)]
    stats = LoadStats.of(usable, sorted(view.loads, key=lambda name: view.loads[name].load))
    average, std = stats.average, stats.std
    hits = hits + 1 if _find_reason(view, stats, settings) else 0
    if hits <= settings.shedding_condition_hit_count_threshold:
        return ShedOutcome((), Label.SKIP, Reason.HIT_COUNT, hits, average, std, std)
    unloads, idle_reason = _relieve_brokers(view, stats, settings)
    if not unloads:
        return ShedOutcome((), Label.SKIP, idle_reason, hits, average, std, stats.std)
    return ShedOutcome(tuple(unloads), Label.SUCCESS, unloads[0].reason, 0, average, std, stats.std)


def _is_stale(broker: BrokerLoad, settings: PulsarSettings, now_ms: int) -> bool:
    return now_ms - broker.updated_at_ms > settings.broker_load_data_ttl_in_seconds * MILLIS


def _find_unusable_data(view: LeaderView, settings: PulsarSettings, now_ms: int) -> Reason | None:
    """Say why the reports cannot be used for a decision; None if they can."""
    fresh = 0
    for name, broker in view.loads.items():
        if _is_stale(broker, settings, now_ms):
            continue
        unloaded_at_ms = view.broker_unloaded_at_ms.get(name)
        # A report from shortly after an unload still includes the load that has left.
        if unloaded_at_ms is not None:
            elapsed_ms = broker.updated_at_ms - unloaded_at_ms
            if elapsed_ms < settings.shedding_delay_in_seconds * MILLIS:
                return Reason.COOL_DOWN
        fresh += 1
    if not fresh:
        return Reason.OUT_DATED_DATA if view.loads else Reason.NO_BROKERS
    is_one_missing = any(name not in view.loads for name in view.live_brokers or ())
    return Reason.NO_LOAD_DATA if is_one_missing else None


def _find_reason(view: LeaderView, stats: LoadStats, settings: PulsarSettings) -> Reason | None:
    """Why load should move between the current pair of brokers; None if the cluster is balanced enough."""
    if stats.std > settings.target_std:
        return Reason.OVERLOADED
    if _is_underloaded(view, stats, settings):
        return Reason.UNDERLOADED
    fullest = view.loads[stats.fullest].load
    is_overloaded = fullest > settings.broker_overloaded_threshold_percentage / 100
    if is_overloaded and fullest > stats.average + settings.target_std:
        return Reason.OVERLOADED
    return None


def _is_underloaded(view: LeaderView, stats: LoadStats, settings: PulsarSettings) -> bool:
    share = min(0.5, max(0.0, settings.target_std / 2))
    emptiest, fullest = view.loads[stats.emptiest], view.loads[stats.fullest]
    return emptiest.load < stats.average * share or emptiest.throughput_average < fullest.throughput_average * share


def _relieve_brokers(view: LeaderView, stats: LoadStats, settings: PulsarSettings) -> tuple[list[Unload], Reason]:
    """Visit the pairs from the outside in; returns the unloads, and the reason to give if there are none."""
    unloads: list[Unload] = []
    idle_reason = Reason.HIT_COUNT
    while stats.brokers_shed < settings.max_number_of_broker_shedding_per_cycle and stats.has_pair():
        reason = _find_reason(view, stats, settings)
        if reason is None:
            break
        fuller, emptier = stats.take_fullest(), stats.emptiest
        reported = view.top_bundles(fuller)
        if not reported:
            idle_reason = Reason.NO_LOAD_DATA
            continue
        pair = _Pair(view, settings, fuller, emptier, reason)
        if len(reported) > 1:
            unloads += pair.offload(reported)
        if pair.marked > 0:
            fuller_load = view.loads[fuller].load
            moved = _divide((pair.marked - pair.gained) * fuller_load, view.loads[fuller].throughput)
            stats.move(fuller_load, view.loads[emptier].load, moved)
        elif idle_reason is not Reason.NO_LOAD_DATA:
            idle_reason = Reason.NO_BUNDLES
    return unloads, idle_reason


class _Pair:
    """The transfers between one full and one empty broker, and the traffic that is marked to move."""

    def __init__(self, view: LeaderView, settings: PulsarSettings, fuller: str, emptier: str, reason: Reason) -> None:
        self._view = view
        self._settings = settings
        self._fuller = fuller
        self._emptier = emptier
        self._reason = reason
        load, other = view.loads[fuller].load, view.loads[emptier].load
        self._carried = view.loads[fuller].throughput
        self._target = _divide(self._carried * ((load - other) / 2), load)
        # Bundles that a failed swap attempt has already passed are not considered again.
        self._to_swap: Iterator[ReportedBundle] = iter(view.top_bundles(emptier) or ())
        self.marked = 0.0
        self.gained = 0.0

    def offload(self, reported: Sequence[ReportedBundle]) -> list[Unload]:
        """Move bundles, smallest first, until the next would exceed the target or only one is left."""
        unloads: list[Unload] = []
        remaining = len(reported)
        for bundle in reported:
            if not self._may_move(bundle.name):
                continue
            if remaining <= 1:
                break
            if bundle.throughput == 0:
                continue
            if self.marked - self.gained + bundle.throughput > self._target:
                swapped = self._find_swap(bundle.throughput)
                if swapped is None:
                    break
                unloads += [Unload(self._emptier, each.name, self._fuller, self._reason) for each in swapped]
                # Pulsar adds the gain only where it also logs it, in debug mode.
                if self._settings.debug_mode_enabled:
                    self.gained += sum(each.throughput for each in swapped)
            destination = self._emptier if self._settings.transfer_enabled else None
            unloads.append(Unload(self._fuller, bundle.name, destination, self._reason))
            self.marked += bundle.throughput
            remaining -= 1
        return unloads

    def _may_move(self, bundle: str) -> bool:
        return (
            self._view.is_owner(bundle, self._fuller)
            and namespace_of(bundle) not in self._settings.shedding_excluded_namespaces
            and bundle not in self._view.recently_unloaded_bundles
            and self._view.can_transfer(bundle, self._fuller, self._emptier)
        )

    def _find_swap(self, moving: float) -> list[ReportedBundle] | None:
        """Find bundles that the emptier broker gives back, so that both end up below what the fuller one carried."""
        if not self._settings.transfer_enabled:
            return None
        fuller_after = self._carried - self.marked + self.gained - moving
        emptier_after = self._view.loads[self._emptier].throughput + self.marked - self.gained + moving
        swapped: list[ReportedBundle] = []
        for bundle in self._to_swap:
            if not self._view.can_transfer(bundle.name, self._emptier, self._fuller) or bundle.throughput == 0:
                continue
            with_bundle, without_bundle = fuller_after + bundle.throughput, emptier_after - bundle.throughput
            if not (with_bundle < self._carried and without_bundle < self._carried):
                continue
            swapped.append(bundle)
            fuller_after, emptier_after = with_bundle, without_bundle
            if emptier_after <= fuller_after < self._carried * SWAPPED_BROKER_KEEPS_LESS_THAN:
                return swapped
        return None


def _divide(dividend: float, divisor: float) -> float:
    """Divide as Java does, which returns infinity or NaN for a divisor of zero."""
    if divisor != 0:
        return dividend / divisor
    return math.nan if dividend == 0 or math.isnan(dividend) else math.copysign(math.inf, dividend)


@dataclass(slots=True)
class LoadStats:
    """Mean and standard deviation of the brokers' loads, and pointers to the fullest and the emptiest broker.

    Both are updated while load is marked to move.
    """

    average: float
    std: float
    brokers_by_load: Sequence[str]
    brokers_shed: int = 0
    _square_sum: float = field(default=0.0, repr=False)
    _count: int = field(default=0, repr=False)
    _emptiest: int = 0
    _fullest: int = 0

    @classmethod
    def of(cls, loads: Iterable[float], brokers_by_load: Sequence[str]) -> LoadStats:
        """Compute the statistics of usable loads; `brokers_by_load` may have more brokers, since stale ones stay."""
        total, square_sum, count = 0.0, 0.0, 0
        for load in loads:
            total += load
            square_sum += load * load
            count += 1
        average = total / count if count else 0.0
        std = _root(square_sum / count - average * average) if count else 0.0
        return cls(average, std, brokers_by_load, 0, square_sum, count, 0, len(brokers_by_load) - 1)

    @property
    def emptiest(self) -> str:
        return self.brokers_by_load[self._emptiest]

    @property
    def fullest(self) -> str:
        return self.brokers_by_load[self._fullest]

    def has_pair(self) -> bool:
        """Whether the two pointers have not met yet."""
        return self._emptiest < self._fullest

    def take_fullest(self) -> str:
        """Take the fullest broker that has not been visited yet."""
        broker = self.fullest
        self._fullest -= 1
        return broker

    def move(self, fuller: float, emptier: float, moved: float) -> None:
        """Account for load that moves from one broker to another, and advance to the next emptiest broker."""
        self._square_sum -= fuller * fuller + emptier * emptier
        fuller_after = max(0.0, fuller - moved)
        emptier_after = emptier + moved
        self._square_sum += fuller_after * fuller_after + emptier_after * emptier_after
        self.std = math.sqrt(abs(self._square_sum / self._count - self.average * self.average))
        self.brokers_shed += 1
        self._emptiest += 1


def _root(variance: float) -> float:
    """The square root as in Java: NaN if rounding leaves the variance just below zero."""
    return math.sqrt(variance) if variance >= 0 else math.nan
