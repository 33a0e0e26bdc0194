"""Finds the pools whose highest utilisation a plan raises above the band."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.arrays import Floats, Ints
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.floors import PPB, lowest_peaks
from evenkeel.planning.pools import assign_pools, live_broker_ids
from evenkeel.planning.problem import build_problem, limits_of
from evenkeel.planning.rules.violation import Violation

# How far above the band a peak may seem to be for no other reason than rounding, in parts of the limit.
ROUNDING = 1e-6


def find_worse_peaks(
    before: Ints,
    after: Ints,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    forced: Collection[str],
) -> Iterator[Violation]:
    """Pools that end with a higher peak, above the band.

    Let off are the pools of `forced`, the brokers that had to take in bundles whose owner could not keep them.
    """
    assignment = assign_pools(set(bundles.namespace.tolist()), live_broker_ids(brokers), policies)
    limit = limits_of(brokers, settings)
    pool_of_row = [assignment.pool_of_broker.get(broker.broker_id) for broker in brokers]
    let_off = {assignment.pool_of_broker.get(name) for name in forced}
    for pool in sorted({pool for pool in pool_of_row if pool is not None} - let_off):
        members = np.flatnonzero([its_pool == pool for its_pool in pool_of_row])
        old, new = (_peaks(used[members], limit[members]) for used in (before, after))
        if (new <= old).all():
            continue
        own = bundles.take(np.flatnonzero([assignment.pool_of_namespace[name] == pool for name in bundles.namespace]))
        floors = lowest_peaks(build_problem(pool, brokers, own, policies, settings))
        band = np.array(floors) / PPB * (1 + settings.tolerance)
        for resource in np.flatnonzero((new > old) & (new > band + ROUNDING)).tolist():
            yield Violation(
                "worse-peak",
                None,
                f"the highest {RESOURCES[resource]} of pool {pool} rises from {old[resource]:.1%} to "
                f"{new[resource]:.1%}, above the band, which ends at {band[resource]:.1%}",
            )


def _peaks(used: Ints, limit: Ints) -> Floats:
    """The highest utilisation of each resource, over the brokers whose limit is known."""
    peaks: Floats = np.where(limit > 0, used / np.maximum(limit, 1), 0.0).max(axis=0, initial=0.0)
    return peaks
