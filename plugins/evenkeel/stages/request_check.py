"""Judge what somebody asks of a cluster before anything is written: names that exist, snapshots that may be used."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable
from datetime import datetime

from evenkeel.adapters.cluster.ownership import list_namespaces
from evenkeel.adapters.cluster.registrations import read_registrations
from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.gates.expected_checks import expect_of_snapshot
from evenkeel.model.canonical import short_id
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError, InputError, RefusedError
from evenkeel.model.outside_json import show
from evenkeel.model.settings import Settings
from evenkeel.model.timestamps import format_time, parse_time
from evenkeel.model.verdict import Subject
from evenkeel.stages.manual import read_fresh

MOST_NAMED = 3
log = logging.getLogger(__name__)


def require_known(
    connection: ClusterConnection,
    settings: Settings,
    *,
    brokers: Collection[str] = (),
    namespaces: Collection[str] = (),
    bundles: Collection[str] = (),
) -> None:
    """Refuse names that the running cluster does not have, with the nearest ones; reads no more than it needs."""
    if bundles:
        known = {bundle.bundle for bundle in read_fresh(connection, settings).loaded.bundles}
        _require_among("bundle", bundles, known)
    if not brokers and not namespaces:
        return
    with open_cluster(connection) as source:
        if brokers:
            _require_among("broker", brokers, [found.broker_id for found in read_registrations(source)])
        if namespaces:
            _require_among("namespace", namespaces, list_namespaces(source.tree, source.pulsar.all_local_policies))


def find_last_run_end(lake: Lake, cluster: str) -> datetime | None:
    """When the last run on a cluster ended; whatever was seen before may no longer hold."""
    ends = (parse_time(record.ended_at) for record in RunStore(lake).records(cluster) if not record.dry_run)
    return max(ends, default=None)


def require_fresh(lake: Lake, cluster: str, snapshot: str, settings: Settings) -> str:
    """The id of a snapshot that a plan may be made from: it passed its gate, and nothing was applied since."""
    snapshots = SnapshotStore(lake)
    manifest = snapshots.load(cluster, snapshot)
    verdict = snapshots.read_verdict(manifest, settings)
    if verdict is None:
        raise RefusedError(f"snapshot {manifest.snapshot_id} has not passed its gate", "leave the parameter empty")
    verdict.require_from(expect_of_snapshot(settings), Subject.SNAPSHOT, manifest.snapshot_id)
    verdict.require_passed()
    last_run = find_last_run_end(lake, cluster)
    if last_run is not None and manifest.taken_at <= last_run:
        raise RefusedError(
            f"snapshot {manifest.snapshot_id} is older than the last run, which ended at {format_time(last_run)}",
            "leave the parameter empty, so that a fresh one is taken",
        )
    return manifest.snapshot_id


def find_recent_snapshot(lake: Lake, cluster: str, settings: Settings, now: datetime) -> str | None:
    """The newest snapshot that a plan may be made from without taking another one; None where there is none."""
    snapshots = SnapshotStore(lake)
    for snapshot_id in snapshots.newest_first(cluster):
        try:
            manifest = snapshots.load(cluster, snapshot_id)
            if (now - manifest.taken_at).total_seconds() > settings.max_snapshot_age_s:
                return None
            return require_fresh(lake, cluster, snapshot_id, settings)
        except EvenkeelError as error:
            log.info("snapshot %s is not used: %s", snapshot_id, error)
    return None


def require_not_applied(lake: Lake, plan_id: str, cluster: str) -> None:
    """Refuse a plan of which a run exists already: nobody is to be asked about it again."""
    for record in RunStore(lake).records(cluster):
        if record.plan_id == plan_id and not record.dry_run:
            raise RefusedError(
                f"plan {short_id(plan_id)} was applied already, by run {record.run_id}", "plan from a newer snapshot"
            )


def _require_among(what: str, asked: Collection[str], known: Iterable[str]) -> None:
    names = sorted(set(known))
    for name in asked:
        if name not in names:
            near = difflib.get_close_matches(name, names) or names[:MOST_NAMED]
            raise InputError(
                f"the cluster has no {what} {show(name)}",
                f"use one of its {len(names):,}, such as {' or '.join(near)}" if names else f"it has no {what} at all",
            )
