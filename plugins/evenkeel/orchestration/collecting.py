"""The tasks of `collect_load`: restore what a dead writer left off, store a snapshot of the cluster and judge it."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, Metadata, task

from evenkeel.orchestration import TaskOutput
from evenkeel.orchestration.connection import open_access
from evenkeel.orchestration.retry import READER, WRITER

LOAD_SNAPSHOT = Asset("load_snapshot")
RESTORE_TIMEOUT = timedelta(minutes=2)
SNAPSHOT_TIMEOUT = timedelta(minutes=4)
GATE_TIMEOUT = timedelta(minutes=15)
log = logging.getLogger(__name__)


@task(execution_timeout=RESTORE_TIMEOUT, **WRITER)
def restore_balancer(cluster: str | None) -> list[dict[str, Any]]:
    """Switch Pulsar's balancer back on if a writer died before it could; while one lives, there is nothing to do."""
    from evenkeel.stages.restore_balancer import restore_unless_writing

    access = open_access(cluster)
    found = restore_unless_writing(access.connection, access.settings)
    for sentence in (sentence for each in found for sentence in each.sentences()):
        log.warning("%s", sentence)
    return [each.to_json() for each in found]


@task(execution_timeout=SNAPSHOT_TIMEOUT, **READER)
def take_snapshot(cluster: str | None) -> dict[str, Any]:
    """Store the cluster's current load, ownership and policies. A retry takes a new snapshot."""
    from evenkeel.stages.snapshot import take_snapshot as take

    access = open_access(cluster)
    manifest = take(access.lake, access.connection, access.settings)
    return {
        "cluster": manifest.cluster,
        "snapshot_id": manifest.snapshot_id,
        "rows": {name: table.rows for name, table in manifest.tables.items()},
    }


@task(outlets=[LOAD_SNAPSHOT], execution_timeout=GATE_TIMEOUT, **READER)
def check_snapshot(cluster: str | None, snapshot: TaskOutput) -> Any:
    """Judge a snapshot. The asset is updated only if no critical check fails."""
    from evenkeel.stages.check import check_snapshot as check

    access = open_access(cluster)
    verdict = check(access.lake, access.cluster, snapshot["snapshot_id"], access.settings, access.spark_master)
    verdict.require_passed()
    yield Metadata(LOAD_SNAPSHOT, {"cluster": access.cluster, "snapshot_id": snapshot["snapshot_id"]})
    return {"snapshot_id": snapshot["snapshot_id"], "warnings": [check.detail for check in verdict.warnings]}
