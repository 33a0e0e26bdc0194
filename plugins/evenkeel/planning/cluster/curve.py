"""The curve of balance against moves: what an operator would get from only the first steps of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from evenkeel.model.figures import CurvePoint
from evenkeel.model.load import MILLI, RESOURCES, Resource
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.cluster_brokers import PPB, ClusterBroker
from evenkeel.planning.cluster.figures import DIGITS
from evenkeel.planning.problem.band import SOLVER_ERROR_PPB, reference_peaks
from evenkeel.planning.problem.columns import Bools, Floats, Ints
from evenkeel.planning.search.hot_brokers import fewest_to_cover

MOST_POINTS = 60
ONE = 10**DIGITS


def draw_curve(
    steps: Sequence[Step], brokers: Mapping[str, ClusterBroker], settings: Settings
) -> tuple[CurvePoint, ...]:
    """The balance after so many moves, from none to all; a long plan gets points at even distances.

    `worst` is taken over all brokers and resources with a known limit; the band ends at 1 + tolerance.
    """
    moves = [step for step in steps if step.kind == StepKind.TRANSFER]
    balance = _Balance(brokers, settings)
    points: list[CurvePoint] = []
    done = sessions = client_ms = 0
    for upto in _evenly_up_to(len(moves)):
        part, done = moves[done:upto], upto
        balance.apply(part)
        sessions += sum(step.sessions for step in part)
        client_ms += sum(step.disruption_client_ms for step in part)
        by_resource = balance.worst_by_resource()
        worst = max(by_resource.values())
        points.append(
            CurvePoint(
                moves=upto,
                sessions=sessions,
                client_seconds=round(client_ms / MILLI, 3),
                worst=worst,
                resources=by_resource,
                least_moves=balance.least_moves(worst),
            )
        )
    return tuple(points)


class _Balance:
    """The brokers' loads while moves are applied, and how far they are from the lowest peaks of their pools."""

    def __init__(self, brokers: Mapping[str, ClusterBroker], settings: Settings) -> None:
        rows = list(brokers.values())
        shape = (len(rows), len(RESOURCES))
        limit: Ints = np.array([row.limit for row in rows], dtype=np.int64).reshape(shape)
        peaks: Ints = np.array([row.peak_ppb for row in rows], dtype=np.int64).reshape(shape)
        peak_ppb = reference_peaks(peaks, settings)
        is_measured: Bools = (limit > 0) & (peak_ppb > 0)
        self._place = {name: place for place, name in enumerate(brokers)}
        self._used: Ints = np.array([row.used for row in rows], dtype=np.int64).reshape(shape)
        # What a broker would carry at the lowest peak; infinite where there is nothing to compare with.
        self._at_lowest_peak: Floats = np.where(is_measured, limit * (peak_ppb / PPB), np.inf)
        self._sources = [
            _Source(row, its_peaks) for row, its_peaks in zip(rows, peak_ppb.tolist(), strict=True) if any(row.largest)
        ]

    def apply(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self._used[self._place[step.source]] -= step.load
            self._used[self._place[str(step.destination)]] += step.load

    def worst_by_resource(self) -> dict[Resource, float]:
        worst = (self._used / self._at_lowest_peak).max(axis=0, initial=0.0)
        return {name: round(float(value), DIGITS) for name, value in zip(RESOURCES, worst, strict=True)}

    def least_moves(self, worst: float) -> int:
        """A lower bound on the moves that bring every broker down to this: each source needs its own."""
        # `worst` is rounded, so allow one part in a million more.
        return sum(source.least_moves(round(worst * ONE) + 1) for source in self._sources)


class _Source:
    """A broker above its band before the plan, with the running sums of its largest loads."""

    def __init__(self, broker: ClusterBroker, reference_ppb: Sequence[int]) -> None:
        self._resources = [
            (used, limit * (peak_ppb + 2 * SOLVER_ERROR_PPB), np.cumsum(largest, dtype=np.int64))
            for used, limit, peak_ppb, largest in zip(
                broker.used, broker.limit, reference_ppb, broker.largest, strict=True
            )
            if limit and peak_ppb and largest
        ]

    def least_moves(self, worst_ppm: int) -> int:
        """The fewest bundles that must leave it, by the resource that needs most."""
        return max(
            (
                # What may stay is rounded up, so that the bound stays a lower one.
                fewest_to_cover(covered, used - -(-at_lowest_peak * worst_ppm // (PPB * ONE)))
                for used, at_lowest_peak, covered in self._resources
            ),
            default=0,
        )


def _evenly_up_to(moves: int) -> list[int]:
    """Up to MOST_POINTS numbers from 0 to the number of moves, both included."""
    gaps = min(moves, MOST_POINTS - 1)
    return [moves * point // gaps for point in range(gaps + 1)] if gaps else [0]
