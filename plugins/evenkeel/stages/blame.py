"""Who owned a bundle when, who moved it, and why; from the snapshots and runs in the lake, without Spark.

A bundle that came from a split is followed back through its parents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.auditing.movers import MoverFinder
from evenkeel.model.audit import BundleMove, OwnerChange
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import InputError
from evenkeel.model.snapshot import SnapshotManifest
from evenkeel.model.timestamps import format_time
from evenkeel.stages.audit import read_state

RETURN_WITHIN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class BlamedMove:
    """A change of owner with what the run and its plan say about it."""

    bundle: str
    source: str
    destination: str
    earlier_at: str
    seen_at: str
    mover: str
    evidence: str
    run_id: str | None
    plan_id: str | None
    reason: str
    approval: str


@dataclass(frozen=True, slots=True)
class Blame:
    """A bundle's owner in the first and the last snapshot of a period, and every change between them."""

    bundle: str
    since: str
    snapshots: int
    first_owner: str | None
    owner: str | None
    moves: tuple[BlamedMove, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Sight:
    """A bundle, or the parent that held its range, in one snapshot."""

    manifest: SnapshotManifest
    bundle: str
    owner: str
    version_id: int | None
    bytes_per_s: float


def blame_bundle(lake: Lake, cluster: str, bundle: str, now: datetime, period: timedelta) -> Blame:
    """Tell the owners of a bundle over a period; a bundle that no snapshot of it holds is refused."""
    wanted = BundleName.parse(bundle)
    store = SnapshotStore(lake)
    first, last = (f"{moment:%Y%m%dT%H%M%SZ}" for moment in (now - period, now))
    near = [name for name in store.ids(cluster) if first <= name.partition("-")[0] <= last]
    manifests = sorted((store.load(cluster, name) for name in near), key=lambda m: (m.taken_at, m.snapshot_id))
    found = [sight for m in manifests if (sight := _look(store, m, wanted)) is not None]
    if not found:
        raise InputError(
            f"no snapshot of the period holds {bundle}", "check its name, or look further back with --since"
        )
    owned = [sight for sight in found if sight.owner]
    changes = _changes(owned)
    states = {m.snapshot_id: read_state(lake, m) for m in manifests if _is_named(m.snapshot_id, changes)}
    finder = MoverFinder(RunStore(lake).records(cluster), states)
    plans = PlanStore(lake)
    runs = {run.run_id: run.plan_id for run in RunStore(lake).records(cluster)}
    moves = tuple(_describe(plans, finder.find(change), runs) for change in changes)
    return Blame(
        bundle=bundle,
        since=format_time(now - period),
        snapshots=len(manifests),
        first_owner=found[0].owner or None,
        owner=found[-1].owner or None,
        moves=moves,
    )


def _look(store: SnapshotStore, manifest: SnapshotManifest, wanted: BundleName) -> _Sight | None:
    """The smallest bundle of a snapshot that holds the whole range of the wanted one."""
    table = store.read_table(manifest, "bundles")
    is_near = pc.and_(
        pc.equal(table["namespace"], wanted.namespace),
        pc.and_(
            pc.less_equal(table["range_lower"], pa.scalar(wanted.range.lower, pa.int64())),
            pc.greater_equal(table["range_upper"], pa.scalar(wanted.range.upper, pa.int64())),
        ),
    )
    rows = table.filter(is_near).to_pylist()
    if not rows:
        return None
    row = min(rows, key=lambda each: each["range_upper"] - each["range_lower"])
    traffic = row["throughput_in_bytes_per_s"] + row["throughput_out_bytes_per_s"]
    return _Sight(manifest, row["bundle"], row["owner"] or "", row["version_id"], traffic)


def _changes(owned: Sequence[_Sight]) -> list[OwnerChange]:
    changes: list[OwnerChange] = []
    for before, after in pairwise(owned):
        if before.owner == after.owner:
            continue
        is_same = before.bundle == after.bundle and None not in (before.version_id, after.version_id)
        change = OwnerChange(
            namespace=after.bundle.rpartition("/")[0],
            bundle=after.bundle,
            source=before.owner,
            destination=after.owner,
            earlier_snapshot_id=before.manifest.snapshot_id,
            snapshot_id=after.manifest.snapshot_id,
            earlier_at=before.manifest.taken_at,
            seen_at=after.manifest.taken_at,
            moved_bytes_per_s=round(after.bytes_per_s),
            version_steps=(after.version_id or 0) - (before.version_id or 0) if is_same else None,
            is_return=False,
        )
        last = changes[-1] if changes else None
        is_return = (
            last is not None and last.source == change.destination and change.seen_at - last.seen_at <= RETURN_WITHIN
        )
        changes.append(replace(change, is_return=is_return))
    return changes


def _is_named(snapshot_id: str, changes: Sequence[OwnerChange]) -> bool:
    return any(snapshot_id in (change.earlier_snapshot_id, change.snapshot_id) for change in changes)


def _describe(plans: PlanStore, move: BundleMove, runs: dict[str, str]) -> BlamedMove:
    plan_id = runs.get(move.run_id or "")
    reason, approval = _read_why(plans, plan_id, move.bundle) if plan_id is not None else ("", "")
    return BlamedMove(
        bundle=move.bundle,
        source=move.source,
        destination=move.destination,
        earlier_at=format_time(move.earlier_at),
        seen_at=format_time(move.seen_at),
        mover=move.mover,
        evidence=move.evidence,
        run_id=move.run_id,
        plan_id=plan_id,
        reason=reason,
        approval=approval,
    )


def _read_why(plans: PlanStore, plan_id: str, bundle: str) -> tuple[str, str]:
    """The reason of the step, and who approved it; a plan that cannot be read says nothing."""
    try:
        stored = plans.load(plan_id)
        approval = plans.read_approval(plan_id)
    except InputError as error:
        return f"its plan cannot be read: {error.cause}", ""
    reason = next((step.reason for step in stored.steps if step.bundle == bundle), "")
    return reason, "" if approval is None else approval.describe()
