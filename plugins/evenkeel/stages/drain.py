"""Empty brokers for maintenance: mark them, plan what must leave them and nothing else, check that nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from evenkeel.adapters.fencing.directives import Draining
from evenkeel.adapters.fencing.journal import JournalReader
from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import open_session
from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.directives import Directive
from evenkeel.model.names import require_broker_id
from evenkeel.model.request import STRATEGIES, PlanRequest
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle
from evenkeel.model.timestamps import format_time
from evenkeel.stages.check import check_snapshot
from evenkeel.stages.kill_switch import require_known_cluster
from evenkeel.stages.plan import make_plan, request_plan
from evenkeel.stages.snapshot import take_snapshot

# The widest band that the settings allow: every broker that is not overloaded is inside, so nothing moves for balance.
WIDEST_TOLERANCE = 10.0


def mark_brokers(connection: ClusterConnection, brokers: Sequence[str], who: str, reason: str) -> None:
    """Mark brokers as Stopping for every snapshot from now on; a broker that is not registered is refused."""
    for broker in brokers:
        require_broker_id(broker)
    with open_session(connection) as session:
        require_known_cluster(connection, session)
        Draining(session, connection).mark(brokers, Directive(who, format_time(datetime.now(UTC)), reason))


def unmark_brokers(connection: ClusterConnection, brokers: Sequence[str]) -> list[str]:
    """Remove the marks; returns the brokers that had one. A cluster that ZooKeeper does not know is refused."""
    with open_session(connection) as session:
        unmarked = Draining(session, connection).unmark(brokers)
        if not unmarked:
            # Nothing to do may also mean that the cluster's name is mistyped.
            require_known_cluster(connection, session)
        return unmarked


def read_marks(connection: ClusterConnection) -> dict[str, Directive]:
    """The brokers that are marked for draining now, and who marked them."""
    with open_session(connection) as session:
        return Draining(session, connection).marked()


def was_begun(connection: ClusterConnection, plan_id: str) -> bool:
    """Whether a step of a plan was begun, by the journal, which no dead worker can keep to itself."""
    with open_session(connection) as session:
        return bool(JournalReader(session, EvenkeelPaths(connection.home)).entries(plan_id))


def request_drain(
    lake: Lake, connection: ClusterConnection, settings: Settings, master: str, request_id: str
) -> PlanRequest:
    """Request, from a fresh snapshot that passed its gate, a plan of what must leave the marked brokers."""
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
    chosen = only_what_must_move(settings)
    manifest = take_snapshot(lake, connection, chosen)
    answer = make_plan(
        lake, connection.cluster, manifest.snapshot_id, STRATEGIES[0], chosen, master, logs, deadline_s, on_stage
    )
    return PlanStore(lake).load(answer["plan_id"])


def only_what_must_move(settings: Settings) -> Settings:
    """Settings for a plan that empties brokers, repairs rules and relieves overloaded brokers, and does no more."""
    return replace(settings, tolerance=WIDEST_TOLERANCE, max_number_of_bundles_to_split_per_cycle=0)


def find_leftovers(lake: Lake, cluster: str, snapshot_id: str, brokers: Collection[str]) -> list[str]:
    """Bundles that these brokers own in a snapshot, except those that Pulsar pins to each broker."""
    snapshots = SnapshotStore(lake)
    manifest = snapshots.load(cluster, snapshot_id)
    bundles: list[Bundle] = from_arrow(
        Bundle, snapshots.read_table(manifest, "bundles"), lake.uri_of(manifest.tables["bundles"].path)
    )
    return sorted(b.bundle for b in bundles if b.owner in brokers and not is_system_namespace(b.namespace))
