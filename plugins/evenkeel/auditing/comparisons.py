"""Which snapshot shows what became of a run: the one nearest to some time after its end, or none, and why none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from evenkeel.model.run import RunRecord, StepState
from evenkeel.model.snapshot import SnapshotManifest
from evenkeel.model.timestamps import parse_time

HORIZONS_S = (900, 3600)
"""15 minutes and an hour after a run's end."""
TOLERANCE_SHARE = 1 / 3
"""How far a snapshot may be from its time, as a share of the horizon: 5 minutes, and 20."""

_DONE = (StepState.SETTLED, StepState.APPLIED, StepState.FAILED)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run at a horizon: the snapshot to compare with, or why there is none."""

    run: RunRecord
    horizon_s: int
    manifest: SnapshotManifest | None
    note: str = ""


def is_comparable(run: RunRecord) -> bool:
    """Whether a run has done something to the cluster and has ended."""
    return not run.dry_run and run.count_own(*_DONE) > 0


def find_comparisons(
    runs: Sequence[RunRecord],
    manifests: Sequence[SnapshotManifest],
    now: datetime,
    horizons_s: Sequence[int] = HORIZONS_S,
) -> list[Comparison]:
    """For each run and horizon the nearest snapshot within the tolerance, before the next run begins."""
    ordered = sorted((run for run in runs if is_comparable(run)), key=lambda run: run.ended_at)
    starts = sorted(parse_time(run.started_at) for run in ordered)
    found = []
    for run in ordered:
        ended_at = parse_time(run.ended_at)
        next_start = next((start for start in starts if start > ended_at), None)
        found += [_compare(run, ended_at, next_start, horizon_s, manifests, now) for horizon_s in horizons_s]
    return found


def _compare(
    run: RunRecord,
    ended_at: datetime,
    next_start: datetime | None,
    horizon_s: int,
    manifests: Sequence[SnapshotManifest],
    now: datetime,
) -> Comparison:
    wanted, tolerance = ended_at + timedelta(seconds=horizon_s), timedelta(seconds=horizon_s * TOLERANCE_SHARE)
    if now < wanted:
        return Comparison(run, horizon_s, None, f"the run ended less than {_span(horizon_s)} ago")
    near = [m for m in manifests if abs(m.taken_at - wanted) <= tolerance and m.taken_at > ended_at]
    alone = [m for m in near if next_start is None or m.taken_at < next_start]
    if alone:
        nearest = min(alone, key=lambda m: (abs(m.taken_at - wanted), m.snapshot_id))
        return Comparison(run, horizon_s, nearest)
    if near or (next_start is not None and next_start <= wanted):
        return Comparison(run, horizon_s, None, "another run began before")
    return Comparison(run, horizon_s, None, f"no snapshot within {_span(tolerance.total_seconds())} of that time")


def _span(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
