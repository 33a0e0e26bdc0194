"""Empty brokers for maintenance: mark them, plan what must leave them and nothing else, see that nothing is left."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from evenkeel.adapters.draining import Draining
from evenkeel.adapters.lake import Lake, from_arrow
from evenkeel.adapters.plans import PlanStore, StoredPlan
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.adapters.zookeeper import ZooKeeperSession
from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.moments import format_time
from evenkeel.model.orders import Order
from evenkeel.model.request import STRATEGIES, PlanRequest
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle
from evenkeel.stages.check import check_snapshot
from evenkeel.stages.plan import request_plan, run_jobs
from evenkeel.stages.snapshot import take_snapshot

# The widest band that the settings allow: whoever is not overloaded is inside, so nothing moves for balance.
WIDEST_TOLERANCE = 10.0


def mark_brokers(connection: ClusterConnection, brokers: Sequence[str], who: str, reason: str) -> None:
    """Mark brokers as Stopping for every snapshot from now on; one that is not registered is refused."""
    with ZooKeeperSession(
        connection.zookeeper, connection.timeout_s, connection.timeout_s, connection.security
    ) as session:
        Draining(session, connection).mark(brokers, Order(who, format_time(datetime.now(UTC)), reason))


def unmark_brokers(connection: ClusterConnection, brokers: Sequence[str]) -> list[str]:
    """Take the marks away; answers those brokers that had one."""
    with ZooKeeperSession(
        connection.zookeeper, connection.timeout_s, connection.timeout_s, connection.security
    ) as session:
        return Draining(session, connection).unmark(brokers)


def request_drain(
    lake: Lake, connection: ClusterConnection, settings: Settings, master: str, request_id: str
) -> PlanRequest:
    """Ask, from a fresh snapshot that passed its gate, for a plan of what must leave the marked brokers."""
    chosen = only_what_must_move(settings)
    manifest = take_snapshot(lake, connection, chosen)
    check_snapshot(lake, connection.cluster, manifest.snapshot_id, chosen, master).require_passed()
    return request_plan(lake, connection.cluster, manifest.snapshot_id, STRATEGIES[0], chosen, request_id)


def plan_drain(
    lake: Lake,
    connection: ClusterConnection,
    settings: Settings,
    master: str,
    logs: Path,
    deadline_s: float,
    on_stage: Callable[[str], None],
) -> StoredPlan:
    """Plan what must leave the marked brokers, and where it goes."""
    request = request_drain(lake, connection, settings, master, uuid.uuid4().hex)
    answer = run_jobs(lake, request, master, logs, deadline_s, lambda job: on_stage(f"Spark: {job}"))
    return PlanStore(lake).load(answer["plan_id"])


def only_what_must_move(settings: Settings) -> Settings:
    """The settings by which a plan empties brokers, repairs rules and relieves overloaded brokers, but does no more."""
    return replace(settings, tolerance=WIDEST_TOLERANCE, max_number_of_bundles_to_split_per_cycle=0)


def find_leftovers(lake: Lake, cluster: str, snapshot_id: str, brokers: Collection[str]) -> list[str]:
    """Bundles that these brokers own by a snapshot, those apart that Pulsar pins to each broker."""
    snapshots = SnapshotStore(lake)
    manifest = snapshots.load(cluster, snapshot_id)
    bundles: list[Bundle] = from_arrow(
        Bundle, snapshots.read_table(manifest, "bundles"), lake.uri_of(manifest.tables["bundles"].path)
    )
    return sorted(b.bundle for b in bundles if b.owner in brokers and not is_system_namespace(b.namespace))
