"""What Pulsar's own strategies would do with a snapshot: each is simulated cycle after cycle until it stops.

The simulation assumes the best case for them: reported load follows at once after each cycle, TransferShedder's
condition counts as met long enough, there is no cool-down, and no bundle is barred because it moved before. Policies
hold. Load averages start with the simulation. Every live broker counts as having reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem.columns import BundleColumns, Floats
from evenkeel.planning.pulsar_strategies.simulated_cluster import SimulatedCluster
from evenkeel.planning.pulsar_strategies.simulated_shedders import SimulatedThresholdShedder, SimulatedTransferShedder
from evenkeel.pulsar_rules.auto_thresholds import resolve_auto

TRANSFER_SHEDDER = "transfer-shedder"
THRESHOLD_SHEDDER = "threshold-shedder"
STRATEGIES = (TRANSFER_SHEDDER, THRESHOLD_SHEDDER)
STRATEGY_NAMES = {TRANSFER_SHEDDER: "TransferShedder", THRESHOLD_SHEDDER: "ThresholdShedder"}

# TransferShedder relieves three brokers a cycle and may need hours; ThresholdShedder relieves all hot brokers at once.
# A strategy that has not stopped after this many cycles shuffles bundles forever.
MOST_CYCLES = {TRANSFER_SHEDDER: 480, THRESHOLD_SHEDDER: 120}
# How many cycles without a move end the simulation. TransferShedder keeps no history here, so after one idle cycle all
# are idle. ThresholdShedder averages usage over time, so it may start again after the load has stopped changing.
IDLE_CYCLES = {TRANSFER_SHEDDER: 1, THRESHOLD_SHEDDER: 12}


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The outcome of a simulation; `cycles` counts up to the last cycle that moved something.

    `moves` are the bundles that end up on another broker, as (bundle row, broker row) of the input. `unloads` counts
    every move on the way, `repeat_unloads` those of a bundle that had already moved; `times_moved` lists every bundle
    that moved at all, with how often.
    """

    strategy: str
    cycles: int
    unloads: int
    repeat_unloads: int
    moves: tuple[tuple[int, int], ...]
    times_moved: tuple[tuple[int, int], ...]
    stopped_because: str
    explanation: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StrategyDecision:
    """The final destinations of the bundles that a strategy moves, by bundle and broker id, and why it stops there."""

    strategy: str
    destinations: Mapping[str, str]
    stopped_because: str

    @property
    def name(self) -> str:
        """Pulsar's name for the strategy."""
        return STRATEGY_NAMES[self.strategy]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def play(
    strategy: str, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> Counterfactual:
    """Simulate a strategy until it stops; `bundles` and `brokers`, whose rows it uses, have to be sorted by name."""
    return simulate(strategy, brokers, bundles, policies, settings, MOST_CYCLES[strategy])


def decision_of(played: Counterfactual, brokers: Sequence[Broker], bundles: BundleColumns) -> StrategyDecision:
    """The outcome of a simulation by names instead of rows."""
    destinations = {str(bundles.bundle[row]): brokers[broker].broker_id for row, broker in played.moves}
    return StrategyDecision(played.strategy, destinations, played.stopped_because)


def decide(
    strategy: str, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> StrategyDecision:
    """Decide as a strategy would; a bundle that it moves several times moves once, to its last destination."""
    in_order, rows = sorted(brokers, key=lambda broker: broker.broker_id), bundles.sorted_by_name()
    return decision_of(play(strategy, in_order, rows, policies, settings), in_order, rows)


def simulate(
    strategy: str,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: PulsarSettings,
    max_cycles: int,
    seed: int = 0,
) -> Counterfactual:
    """Simulate one of Pulsar's strategies; the seed replaces its random choices between equal brokers."""
    if strategy not in STRATEGIES:
        raise InputError(f"Pulsar has no strategy {strategy!r}", f"choose one of {', '.join(STRATEGIES)}")
    cluster = SimulatedCluster(brokers, bundles, policies)
    excluded = policies.excluded_namespaces | frozenset(settings.shedding_excluded_namespaces)
    settings = replace(settings, shedding_excluded_namespaces=tuple(sorted(excluded)))
    settings = resolve_auto(settings, cluster.totals(settings))
    usage_before = cluster.weighted_usage(settings, strategy == TRANSFER_SHEDDER)
    if strategy == TRANSFER_SHEDDER:
        shedder: SimulatedTransferShedder | SimulatedThresholdShedder = SimulatedTransferShedder(
            cluster, settings, seed
        )
    else:
        shedder = SimulatedThresholdShedder(cluster, settings, seed)
    cycles, stopped_because = _run(shedder.run_cycle, len(cluster.brokers), max_cycles, IDLE_CYCLES[strategy])
    unloads = int(cluster.times_moved.sum())
    repeats = unloads - int((cluster.times_moved > 0).sum())
    moved = np.flatnonzero(cluster.owner != cluster.first_owner)
    destinations = cluster.broker_rows[cluster.owner[moved]]
    usage_after = cluster.weighted_usage(settings, strategy == TRANSFER_SHEDDER)
    return Counterfactual(
        strategy=strategy,
        cycles=cycles,
        unloads=unloads,
        repeat_unloads=repeats,
        moves=tuple(zip(moved.tolist(), destinations.tolist(), strict=True)),
        times_moved=tuple((row, int(cluster.times_moved[row])) for row in np.flatnonzero(cluster.times_moved).tolist()),
        stopped_because=stopped_because,
        explanation=(
            f"{shedder.name} would unload {unloads} times in {cycles} cycles and leave {len(moved)} bundles elsewhere.",
            *([f"{repeats} of the unloads are of a bundle that had been moved before."] if repeats else []),
            *_describe_load(usage_before, usage_after),
            *shedder.explain(),
            f"It stops because {stopped_because}.",
        ),
    )


def _run(run_cycle: Callable[[], str | None], broker_count: int, max_cycles: int, idle_cycles: int) -> tuple[int, str]:
    """Run cycles until enough in a row move nothing; returns the last cycle with a move, and why the run ended."""
    if broker_count < 2:
        return 0, "there are not two live brokers"
    last_active = 0
    for cycle in range(1, max_cycles + 1):
        idle_because = run_cycle()
        if idle_because is None:
            last_active = cycle
        elif cycle - last_active >= idle_cycles:
            return last_active, idle_because
    return last_active, f"the limit of {max_cycles} cycles is reached"


def _describe_load(before: Floats, after: Floats) -> list[str]:
    if not len(before):
        return []
    return [
        f"The fullest broker goes from {100 * before.max():.1f} % to {100 * after.max():.1f} %, "
        f"the spread of load (standard deviation) from {100 * before.std():.1f} to {100 * after.std():.1f} points."
    ]
