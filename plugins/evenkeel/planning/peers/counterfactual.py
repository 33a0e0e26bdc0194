"""What Pulsar itself would have done with a snapshot: its own strategies, cycle after cycle until they rest.

The best case for them is assumed: load settles at once after each cycle, TransferShedder's condition counts as
met long enough, nothing cools down, and no bundle is barred because it moved before. Policies hold. Load averages
have no past but the simulated one. Every live broker counts as having reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.arrays import Floats
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.peers.settled_cluster import SettledCluster
from evenkeel.planning.peers.simulated_shedders import SimulatedThresholdShedder, SimulatedTransferShedder
from evenkeel.pulsar.auto_thresholds import resolve_auto

TRANSFER_SHEDDER = "transfer-shedder"
THRESHOLD_SHEDDER = "threshold-shedder"
STRATEGIES = (TRANSFER_SHEDDER, THRESHOLD_SHEDDER)

# Without a past, a cycle of TransferShedder that moves nothing is followed by none that does. ThresholdShedder
# remembers: its averages keep changing for a while after the load came to rest.
IDLE_CYCLES = {TRANSFER_SHEDDER: 1, THRESHOLD_SHEDDER: 12}


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The end of a simulation; cycles are counted up to the last that moved something.

    `moves` are the bundles that end elsewhere than they began, as (row of the bundle, row of the broker) of what
    was given. `unloads` counts every move on the way there, `repeat_unloads` those of a bundle that had moved before;
    `times_moved` has each bundle that moved at all, with how often.
    """

    strategy: str
    cycles: int
    unloads: int
    repeat_unloads: int
    moves: tuple[tuple[int, int], ...]
    times_moved: tuple[tuple[int, int], ...]
    stopped_because: str
    explanation: tuple[str, ...]


def simulate(
    strategy: str,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: PulsarSettings,
    max_cycles: int,
    seed: int = 0,
) -> Counterfactual:
    """Play one of Pulsar's strategies through; the seed decides where it would draw a broker at random."""
    if strategy not in STRATEGIES:
        raise InputError(f"{strategy!r} is not a strategy of Pulsar's", f"choose one of {', '.join(STRATEGIES)}")
    cluster = SettledCluster(brokers, bundles, policies)
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
    """Run cycles until enough in a row moved nothing; return the last that moved something, and why it ended."""
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
