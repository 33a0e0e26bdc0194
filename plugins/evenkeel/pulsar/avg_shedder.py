"""AvgShedder: pair the fullest broker with the emptiest, the next with the next, and even out each pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar.modular_cluster import ModularBroker, ModularCluster, Unloads, msg_rate, throughput


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
class _Pair:
    emptier: str
    fuller: str
    difference: float


def shed_pairs(cluster: ModularCluster, hits: AvgHits, settings: PulsarSettings) -> AvgOutcome:
    """Choose the bundles to unload; `hits` are the counts that the run before returned."""
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


def _pair_up(cluster: ModularCluster, settings: PulsarSettings) -> Iterator[_Pair]:
    scores = {name: usage * 100 for name, usage in cluster.usages(settings).items()}
    order = sorted(scores, key=lambda name: scores[name])
    # With an odd number the one in the middle is paired with itself.
    for emptier, fuller in zip(order[: (len(order) + 1) // 2], reversed(order), strict=False):
        yield _Pair(emptier, fuller, scores[fuller] - scores[emptier])


def _count(pair: _Pair, low: dict[str, int], high: dict[str, int], settings: PulsarSettings) -> bool:
    """Advance or clear the counts of a pair; say whether it differs enough to be looked at."""
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


def _is_due(pair: _Pair, low: Mapping[str, int], high: Mapping[str, int], settings: PulsarSettings) -> bool:
    return any(
        high.get(broker, 0) >= settings.avg_shedder_hit_count_high_threshold
        or low.get(broker, 0) >= settings.avg_shedder_hit_count_low_threshold
        for broker in (pair.emptier, pair.fuller)
    )


def _forget(pair: _Pair, low: dict[str, int], high: dict[str, int]) -> None:
    for broker in (pair.emptier, pair.fuller):
        low.pop(broker, None)
        high.pop(broker, None)


def _choose_bundles(cluster: ModularCluster, pair: _Pair, settings: PulsarSettings) -> tuple[str, ...]:
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
