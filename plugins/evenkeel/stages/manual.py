"""A plan of one step by hand, from a fresh snapshot; gate, approval, apply and verify are those of any plan.

The snapshot is read into memory, and stored together with the plan: a request that is refused leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel import __version__
from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.snapshots import PreparedSnapshot, SnapshotStore, prepare_snapshot
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SNAPSHOT_TABLES
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.manual.build_plan import LoadedSnapshot
from evenkeel.planning.manual.requests import ManualRequest, build_manual_plan
from evenkeel.stages.snapshot import read_snapshot


@dataclass(frozen=True, slots=True)
class FreshSnapshot:
    """A snapshot that was just read: as the planner takes it, and as the lake will store it."""

    loaded: LoadedSnapshot
    prepared: PreparedSnapshot


def plan_by_hand(lake: Lake, connection: ClusterConnection, settings: Settings, request: ManualRequest) -> StoredPlan:
    """Read the cluster, and store the plan of one step that was asked for."""
    request.require_names()
    fresh = read_fresh(connection, settings)
    return store_plan(lake, fresh, build_manual_plan(fresh.loaded, request))


def read_fresh(connection: ClusterConnection, settings: Settings) -> FreshSnapshot:
    """Read a cluster and hold all of it: what a person chooses by hand is small, and needs no Spark."""
    content = read_snapshot(connection, settings)
    prepared = prepare_snapshot(content)
    manifest = prepared.manifest
    tables = {name: from_arrow(table, content.tables[name], name) for name, table in SNAPSHOT_TABLES.items()}
    loaded = LoadedSnapshot(
        cluster=manifest.cluster,
        load_manager=str(manifest.load_manager),
        snapshot_id=manifest.snapshot_id,
        taken_at=manifest.taken_at,
        brokers=tables["brokers"],
        bundles=tables["bundles"],
        topics=tables["topics"],
        documents=tables["policies"],
        settings=settings,
        library_version=__version__,
    )
    return FreshSnapshot(loaded, prepared)


def store_plan(lake: Lake, fresh: FreshSnapshot, planned: PlannedCluster) -> StoredPlan:
    """Put a plan into the lake, its snapshot first, and read it back as everyone after this will."""
    SnapshotStore(lake).commit(fresh.prepared)
    plans = PlanStore(lake)
    plans.write(planned.plan, planned.steps, planned.rejections, planned.brokers)
    return plans.load(planned.plan.plan_id)
