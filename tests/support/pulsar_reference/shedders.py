"""Pulsar's OverloadShedder, UniformLoadShedder and AvgShedder, which Evenkeel does not use, for the recorded cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.broker_load import ResourceUsages
from evenkeel.pulsar_rules.eligibility import is_pinned, namespace_of
from evenkeel.pulsar_rules.threshold_shedder import ThresholdView, Unloads, take_largest
from support.pulsar_reference.reports import weighted_usage

# A relieved broker should end up slightly below the line, not on it.
OVERLOAD_MARGIN = 0.05
UNLIMITED = -1
# Budgets are Java integers: they stop here, and so does the search for the idlest broker.
LARGEST_INT = 2**31 - 1
SMALLEST_DIFFERENCE = 1e-6


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages and bytes per second, in and out together."""

    msg_rate: float
    throughput: float


@dataclass(frozen=True, slots=True)
class ModularBroker:
    """A broker's last report."""

    usages: ResourceUsages
    bundles: frozenset[str]
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class ModularCluster:
    """The leader's view; bundles without recent traffic data cannot be chosen."""

    brokers: Mapping[str, ModularBroker]
    bundles: Mapping[str, Traffic]
    recently_unloaded: frozenset[str] = frozenset()

    def usages(self, settings: PulsarSettings) -> dict[str, float]:
        """Each broker's weighted usage."""
        return {name: weighted_usage(broker.usages, settings) for name, broker in self.brokers.items()}

    def rank_bundles(self, broker: str, value: Callable[[Traffic], float]) -> list[tuple[str, float]]:
        """The bundles that a broker may shed with their value, largest first and equal ones by name."""
        known = sorted(self.brokers[broker].bundles & self.bundles.keys() - self.recently_unloaded)
        movable = [(name, value(self.bundles[name])) for name in known if not is_pinned(namespace_of(name))]
        return sorted(movable, key=lambda entry: -entry[1])


def msg_rate(traffic: Traffic) -> float:
    return traffic.msg_rate


def throughput(traffic: Traffic) -> float:
    return traffic.throughput


def view_of(cluster: ModularCluster, settings: PulsarSettings) -> ThresholdView:
    """The part of a modular cluster that this shedder looks at."""
    return ThresholdView(
        usages=cluster.usages(settings),
        throughputs={name: broker.traffic.throughput for name, broker in cluster.brokers.items()},
        bundle_counts={name: len(broker.bundles) for name, broker in cluster.brokers.items()},
        rank_bundles=lambda name: cluster.rank_bundles(name, throughput),
    )


def shed_overload(cluster: ModularCluster, settings: PulsarSettings) -> Unloads:
    """Choose the bundles to unload from every broker at or above the overload line."""
    line = settings.broker_overloaded_threshold_percentage / 100
    unloads: Unloads = {}
    for name, usage in cluster.usages(settings).items():
        broker = cluster.brokers[name]
        if usage < line or len(broker.bundles) <= 1:
            continue
        wanted = broker.traffic.throughput * (usage - line + OVERLOAD_MARGIN)
        chosen = take_largest(cluster.rank_bundles(name, throughput), wanted)
        if chosen:
            unloads[name] = chosen
    return unloads


@dataclass(frozen=True, slots=True)
class _Extremes:
    """The busiest broker by one measure, and what it and the idlest one carry."""

    busiest: str | None
    most: float
    least: float

    def budget(self, share: float) -> int:
        return _to_int((self.most - self.least) * share)


def shed_uniformly(cluster: ModularCluster, settings: PulsarSettings) -> Unloads:
    """Choose the bundles to unload from the busiest broker; message rate is looked at before throughput."""
    rates = _find_extremes(cluster, msg_rate)
    bytes_ = _find_extremes(cluster, throughput)
    rate_limit = settings.msg_rate_difference_shedder_threshold
    bytes_limit = settings.msg_throughput_multiplier_difference_shedder_threshold
    if rate_limit > 0 and (rates.most - rates.least) * 100 / rates.least > rate_limit:
        return _shed(cluster, rates, msg_rate, settings.min_unload_message, settings)
    if bytes_limit > 0 and bytes_.most / bytes_.least > bytes_limit:
        return _shed(cluster, bytes_, throughput, settings.min_unload_message_throughput, settings)
    return {}


def _find_extremes(cluster: ModularCluster, value: Callable[[Traffic], float]) -> _Extremes:
    busiest, most, least = None, -1.0, float(LARGEST_INT)
    for name, broker in cluster.brokers.items():
        carried = value(broker.traffic)
        if carried > most:
            busiest, most = name, carried
        least = min(least, carried)
    # An idle broker counts as 1, so that it can be divided by.
    return _Extremes(busiest, most, 1.0 if abs(least) <= SMALLEST_DIFFERENCE else least)


def _shed(
    cluster: ModularCluster,
    extremes: _Extremes,
    value: Callable[[Traffic], float],
    smallest_budget: int,
    settings: PulsarSettings,
) -> Unloads:
    name = extremes.busiest
    budget = extremes.budget(settings.max_unload_percentage)
    if name is None or len(cluster.brokers[name].bundles) <= 1 or budget < smallest_budget:
        return {}
    most_bundles = settings.max_unload_bundle_num_per_shedding
    chosen: list[str] = []
    for bundle, carried in cluster.rank_bundles(name, value):
        if most_bundles != UNLIMITED and len(chosen) >= most_bundles:
            break
        if carried <= budget:
            budget -= _to_int(carried)
            chosen.append(bundle)
    return {name: tuple(chosen)} if chosen else {}


def _to_int(value: float) -> int:
    """The integer part, held within Java's range."""
    return int(max(-LARGEST_INT - 1, min(LARGEST_INT, value)))


@dataclass(frozen=True, slots=True)
class AvgHits:
    """How many runs in a row each broker was in a pair that differs much, or very much."""

    low: Mapping[str, int] = field(default_factory=dict)
    high: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AvgOutcome:
    """What one run decided, where each bundle should go, and the counts that the next run starts from."""

    unloads: Unloads
    destinations: Mapping[str, str]
    hits: AvgHits


@dataclass(frozen=True, slots=True)
class _BrokerPair:
    emptier: str
    fuller: str
    difference: float


def shed_pairs(cluster: ModularCluster, hits: AvgHits, settings: PulsarSettings) -> AvgOutcome:
    """Choose the bundles to unload; `hits` are the counts that the previous run returned."""
    low, high = dict(hits.low), dict(hits.high)
    pairs = [pair for pair in _pair_up(cluster, settings) if _count(pair, low, high, settings)]
    if not pairs:
        return AvgOutcome({}, {}, AvgHits())
    unloads: Unloads = {}
    destinations: dict[str, str] = {}
    for pair in pairs:
        if not _is_due(pair, low, high, settings):
            continue
        _forget(pair, low, high)
        chosen = _choose_bundles(cluster, pair, settings)
        if chosen:
            unloads[pair.fuller] = chosen
            destinations.update(dict.fromkeys(chosen, pair.emptier))
    return AvgOutcome(unloads, destinations, AvgHits(low, high))


def _pair_up(cluster: ModularCluster, settings: PulsarSettings) -> Iterator[_BrokerPair]:
    scores = {name: usage * 100 for name, usage in cluster.usages(settings).items()}
    order = sorted(scores, key=lambda name: scores[name])
    # With an odd number the one in the middle is paired with itself.
    for emptier, fuller in zip(order[: (len(order) + 1) // 2], reversed(order), strict=False):
        yield _BrokerPair(emptier, fuller, scores[fuller] - scores[emptier])


def _count(pair: _BrokerPair, low: dict[str, int], high: dict[str, int], settings: PulsarSettings) -> bool:
    """Advance or clear the counts of a pair; returns whether it differs enough to be considered."""
    if pair.difference < settings.avg_shedder_low_threshold:
        _forget(pair, low, high)
        return False
    is_urgent = pair.difference >= settings.avg_shedder_high_threshold
    for broker in (pair.emptier, pair.fuller):
        low[broker] = low.get(broker, 0) + 1
        if is_urgent:
            high[broker] = high.get(broker, 0) + 1
        else:
            high.pop(broker, None)
    return True


def _is_due(pair: _BrokerPair, low: Mapping[str, int], high: Mapping[str, int], settings: PulsarSettings) -> bool:
    return any(
        high.get(broker, 0) >= settings.avg_shedder_hit_count_high_threshold
        or low.get(broker, 0) >= settings.avg_shedder_hit_count_low_threshold
        for broker in (pair.emptier, pair.fuller)
    )


def _forget(pair: _BrokerPair, low: dict[str, int], high: dict[str, int]) -> None:
    for broker in (pair.emptier, pair.fuller):
        low.pop(broker, None)
        high.pop(broker, None)


def _choose_bundles(cluster: ModularCluster, pair: _BrokerPair, settings: PulsarSettings) -> tuple[str, ...]:
    """Bundles that fit into a part of the pair's difference, by message rate if that is large, else by bytes."""
    emptier: ModularBroker = cluster.brokers[pair.emptier]
    fuller: ModularBroker = cluster.brokers[pair.fuller]
    rate_budget = (fuller.traffic.msg_rate - emptier.traffic.msg_rate) * settings.max_unload_percentage
    bytes_budget = (fuller.traffic.throughput - emptier.traffic.throughput) * settings.max_unload_percentage
    if rate_budget > settings.min_unload_message:
        value, budget = msg_rate, rate_budget
    elif bytes_budget > settings.min_unload_message_throughput:
        value, budget = throughput, bytes_budget
    else:
        return ()
    chosen = []
    for bundle, carried in cluster.rank_bundles(pair.fuller, value):
        if 0 < carried <= budget:
            chosen.append(bundle)
            budget -= carried
    return tuple(chosen)
