"""Tasks that bring the cluster's load into the lake."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, Metadata, task

from evenkeel.orchestration.connection import EvenkeelHook, read_spark_master
from evenkeel.orchestration.retry import READER

LOAD_SNAPSHOT = Asset("load_snapshot")
SNAPSHOT_TIMEOUT = timedelta(minutes=4)
GATE_TIMEOUT = timedelta(minutes=15)


@task(execution_timeout=SNAPSHOT_TIMEOUT, **READER)
def take_snapshot() -> dict[str, Any]:
    """Store the cluster's load, ownership and policies as they are now; a retry stores a new moment."""
    from evenkeel.stages.snapshot import take_snapshot as take

    access = EvenkeelHook().get_conn()
    manifest = take(access.lake, access.connection, access.settings)
    return {
        "cluster": manifest.cluster,
        "snapshot_id": manifest.snapshot_id,
        "rows": {name: table.rows for name, table in manifest.tables.items()},
    }


@task(outlets=[LOAD_SNAPSHOT], execution_timeout=GATE_TIMEOUT, **READER)
def check_snapshot(snapshot: dict[str, Any]) -> Any:
    """Judge a snapshot; the asset is updated only if nothing critical is wrong with it."""
    from evenkeel.stages.check import check_snapshot as check

    access = EvenkeelHook().get_conn()
    verdict = check(access.lake, access.cluster, snapshot["snapshot_id"], access.settings, read_spark_master())
    verdict.require_passed()
    yield Metadata(LOAD_SNAPSHOT, {"cluster": access.cluster, "snapshot_id": snapshot["snapshot_id"]})
    return {"snapshot_id": snapshot["snapshot_id"], "warnings": [check.detail for check in verdict.warnings]}
