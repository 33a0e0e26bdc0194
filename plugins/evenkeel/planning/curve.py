"""The curve of balance against moves, along the order of the steps, so that an operator can cut a plan short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import Step, StepKind
from evenkeel.planning.arrays import Bools, Floats, Ints
from evenkeel.planning.balance import DIGITS
from evenkeel.planning.floors import SOLVER_ERROR_PPB
from evenkeel.planning.ordering.cluster_brokers import PPB, ClusterBroker
from evenkeel.planning.search.knapsack import fewest_to_cover

MOST_POINTS = 60
ONE = 10**DIGITS


def draw_curve(steps: Sequence[Step], brokers: Mapping[str, ClusterBroker]) -> list[dict[str, Any]]:
    """What is reached after so many moves, from none to all; of a long plan, points at even distances.

    `worst` is the highest utilisation over the lowest peak that its pool could reach, over all brokers and resources
    with a known limit: 1 is perfect, the band ends at 1 + tolerance. `least_moves` is a lower bound for the moves that
    any plan needs to come as far.
    """
    moves = [step for step in steps if step.kind == StepKind.TRANSFER]
    balance = _Balance(brokers)
    points: list[dict[str, Any]] = []
    done = sessions = client_ms = 0
    for upto in _evenly_up_to(len(moves)):
        part, done = moves[done:upto], upto
        balance.apply(part)
        sessions += sum(step.sessions for step in part)
        client_ms += sum(step.disruption_client_ms for step in part)
        by_resource = balance.worst_by_resource()
        worst = max(by_resource.values())
        points.append(
            {
                "moves": upto,
                "sessions": sessions,
                "client_seconds": round(client_ms / 1000, 3),
                "worst": worst,
                "resources": by_resource,
                "least_moves": balance.least_moves(worst),
            }
        )
    return points


class _Balance:
    """The brokers' loads while moves are applied, and how far they are from the lowest peaks of their pools."""

    def __init__(self, brokers: Mapping[str, ClusterBroker]) -> None:
        rows = list(brokers.values())
        shape = (len(rows), len(RESOURCES))
        limit: Ints = np.array([row.limit for row in rows], dtype=np.int64).reshape(shape)
        peak_ppb: Ints = np.array([row.peak_ppb for row in rows], dtype=np.int64).reshape(shape)
        is_measured: Bools = (limit > 0) & (peak_ppb > 0)
        self._place = {name: place for place, name in enumerate(brokers)}
        self._used: Ints = np.array([row.used for row in rows], dtype=np.int64).reshape(shape)
        # What a broker would carry at the lowest peak; endless where there is nothing to compare with.
        self._floor: Floats = np.where(is_measured, limit * (peak_ppb / PPB), np.inf)
        self._sources = [_Source(row) for row in rows if any(row.largest)]

    def apply(self, steps: Iterable[Step]) -> None:
        for step in steps:
            load = (step.cpu_millipercent, step.throughput_in_bytes_per_s, step.throughput_out_bytes_per_s)
            self._used[self._place[step.source]] -= load
            self._used[self._place[str(step.destination)]] += load

    def worst_by_resource(self) -> dict[str, float]:
        worst = (self._used / self._floor).max(axis=0, initial=0.0)
        return {str(name): round(float(value), DIGITS) for name, value in zip(RESOURCES, worst, strict=True)}

    def least_moves(self, worst: float) -> int:
        """No plan brings every broker down to this with fewer moves: each source needs as many by itself."""
        # One part in a million more than it was rounded to.
        return sum(source.least_moves(round(worst * ONE) + 1) for source in self._sources)


class _Source:
    """A broker above its band before the plan, and the running sums of its largest loads."""

    def __init__(self, broker: ClusterBroker) -> None:
        self._resources = [
            (used, limit * (peak_ppb + 2 * SOLVER_ERROR_PPB), np.cumsum(largest, dtype=np.int64))
            for used, limit, peak_ppb, largest in zip(
                broker.used, broker.limit, broker.peak_ppb, broker.largest, strict=True
            )
            if limit and peak_ppb and largest
        ]

    def least_moves(self, worst_ppm: int) -> int:
        """The fewest of its bundles that must leave it, by the resource that asks for most."""
        return max(
            (
                # Rounded up, so that no plan is denied what it may leave behind.
                fewest_to_cover(covered, used - -(-floor * worst_ppm // (PPB * ONE)))
                for used, floor, covered in self._resources
            ),
            default=0,
        )


def _evenly_up_to(moves: int) -> list[int]:
    """At most so many numbers from 0 to the number of moves, both included."""
    gaps = min(moves, MOST_POINTS - 1)
    return [moves * point // gaps for point in range(gaps + 1)] if gaps else [0]
