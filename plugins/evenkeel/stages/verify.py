"""Take a snapshot after a run and compare it with what the plan predicted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.cluster.reader import read_cluster
from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.execution.producers import ProducerChanges, compare_producers
from evenkeel.execution.verification import Verification, verify_placement
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.plan import Plan, Step
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Topic
from evenkeel.model.timestamps import parse_time
from evenkeel.stages.realised_load import realised_load, reported_since

REPORT_POLL_S = 1.0

log = logging.getLogger(__name__)


def verify_run(lake: Lake, run: str, connection: ClusterConnection, settings: Settings) -> Verification:
    """Snapshot the cluster again, compare it with the plan, and store the comparison with the run."""
    runs, plans, snapshots = RunStore(lake), PlanStore(lake), SnapshotStore(lake)
    record = runs.load(run, connection.cluster)
    stored = plans.load(record.plan_id)
    touched = {broker for result in record.results for broker in (result.source, result.destination) if broker}
    ended_at = parse_time(record.ended_at)
    compare = partial(compare_moved_producers, _topics_before(snapshots, stored.plan), stored.steps, ended_at)
    content = _read_after(ended_at, touched, compare, connection, settings)
    manifest = snapshots.write(content)
    verification = verify_placement(
        record,
        stored.steps,
        stored.brokers,
        manifest.snapshot_id,
        _owners(content.tables["bundles"]),
        realised_load(content.tables["bundles"], reported_since(ended_at, content.tables["brokers"])),
        stored.plan.pools,
        compare(content.tables),
    )
    runs.write_verification(record.run_id, manifest.snapshot_id, verification.to_json())
    return verification


def _topics_before(snapshots: SnapshotStore, plan: Plan) -> list[Topic]:
    """The topics that the plan's snapshot told; none if retention has removed it."""
    try:
        return _topics(snapshots.read_table(snapshots.load(plan.cluster, plan.snapshot_id), "topics"))
    except InputError as error:
        log.warning("producers are not compared: %s", error.cause)
        return []


def compare_moved_producers(
    before: Sequence[Topic], steps: Sequence[Step], moment: datetime, tables: Mapping[str, pa.Table]
) -> ProducerChanges:
    """Compare the producers of what the steps moved, where the owner has reported since: a silent one tells nothing."""
    reported = _reported_since(moment, tables)
    owners = _owners(tables["bundles"])
    # A bundle that was split is gone; its halves are where it was.
    moved = {step.bundle for step in steps if owners.get(step.bundle, step.source) in reported}
    return compare_producers(before, _topics(tables["topics"]), moved)


def _reported_since(moment: datetime, tables: Mapping[str, pa.Table]) -> set[str]:
    return set(reported_since(moment, tables["brokers"])["broker_id"].to_pylist())


def _owners(bundles: pa.Table) -> dict[str, str | None]:
    return dict(zip(bundles["bundle"].to_pylist(), bundles["owner"].to_pylist(), strict=True))


def _topics(table: pa.Table) -> list[Topic]:
    return from_arrow(Topic, table, "topics")


def _read_after(
    moment: datetime,
    touched: set[str],
    compare: Callable[[Mapping[str, pa.Table]], ProducerChanges],
    connection: ClusterConnection,
    settings: Settings,
) -> SnapshotContent:
    """Read the cluster once the run's brokers have reported again and its producers are back, or have had time enough.

    A modular broker whose load changed by less than a tenth reports nothing for minutes; its load then stays unknown.
    """
    deadline_s = time.monotonic() + settings.verify_wait_s
    while True:
        with open_cluster(connection, BrokerAccess.from_settings(settings)) as source:
            content = read_cluster(source, connection.cluster, settings, datetime.now(UTC))
        is_settled = touched <= _reported_since(moment, content.tables) and not compare(content.tables).silenced
        if is_settled or time.monotonic() > deadline_s:
            return content
        time.sleep(REPORT_POLL_S)
