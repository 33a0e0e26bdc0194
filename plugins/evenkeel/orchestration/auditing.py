"""The tasks of `audit_plans`: compare runs with their plans, learn from them, and tell what needs attention."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, Metadata, task

from evenkeel.model.errors import RefusedError
from evenkeel.model.verdict import Severity
from evenkeel.orchestration import TaskOutput
from evenkeel.orchestration.connection import open_access
from evenkeel.orchestration.retry import READER
from evenkeel.orchestration.timetable import now

AUDIT = Asset("audit")
AUDIT_TIMEOUT = timedelta(hours=1)
CHECK_TIMEOUT = timedelta(minutes=2)
log = logging.getLogger(__name__)


@task(outlets=[AUDIT], execution_timeout=AUDIT_TIMEOUT, **READER)
def audit_cluster(cluster: str | None) -> Any:
    """Audit the last week, store what was learnt and found, and update the asset."""
    from evenkeel.stages.audit import audit_cluster as audit

    access = open_access(cluster)
    made = audit(access.lake, access.connection, access.cluster, access.settings, access.spark_master, now())
    for finding in made.findings:
        log.warning("%s: %s (%s)", finding.severity, finding.sentence, finding.remedy)
    told: dict[str, Any] = {
        "cluster": access.cluster,
        "audit_id": made.audit_id,
        "report_uri": f"{made.uri}/report.html",
        "findings": dict(made.record.counts),
        "critical": [finding.sentence for finding in made.of(Severity.CRITICAL)],
    }
    yield Metadata(AUDIT, told)
    return told


@task(execution_timeout=CHECK_TIMEOUT, **READER)
def require_nothing_critical(audit: TaskOutput) -> None:
    """Fail if the audit has a critical finding, so that Airflow tells whoever watches its failures."""
    if audit["critical"]:
        raise RefusedError(
            f"{len(audit['critical'])} critical findings, such as: {audit['critical'][0]}",
            f"read {audit['report_uri']}",
        )
