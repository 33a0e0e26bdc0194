"""A plan of one step by hand, from a fresh snapshot; gate, approval, apply and verify then go the usual way."""

from __future__ import annotations

from evenkeel import __version__
from evenkeel.adapters.lake import Lake, from_arrow
from evenkeel.adapters.plans import PlanStore, StoredPlan
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SNAPSHOT_TABLES
from evenkeel.planning.assembly import PlannedCluster
from evenkeel.planning.by_hand import KnownCluster
from evenkeel.planning.manual import Wish, plan_wish
from evenkeel.stages.snapshot import take_snapshot


def plan_by_hand(lake: Lake, connection: ClusterConnection, settings: Settings, wish: Wish) -> StoredPlan:
    """Look at the cluster, and store the plan of one step that does as wished."""
    return store_plan(lake, plan_wish(look_at(lake, connection, settings), wish))


def look_at(lake: Lake, connection: ClusterConnection, settings: Settings) -> KnownCluster:
    """Take a snapshot, and hold all of it: what a person chooses by hand is small, and needs no Spark."""
    manifest = take_snapshot(lake, connection, settings)
    snapshots = SnapshotStore(lake)
    tables = {
        name: from_arrow(table, snapshots.read_table(manifest, name), lake.uri_of(manifest.tables[name].path))
        for name, table in SNAPSHOT_TABLES.items()
    }
    return KnownCluster(
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


def store_plan(lake: Lake, planned: PlannedCluster) -> StoredPlan:
    """Put a plan into the lake, and read it back as everyone after this will."""
    plans = PlanStore(lake)
    plans.write(planned.plan, planned.steps, planned.rejections, planned.brokers)
    return plans.load(planned.plan.plan_id)
