"""`evenkeel audit` and `evenkeel blame`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.options import (
    DEFAULT_JOB_DEADLINE_S,
    DEFAULT_LOGS,
    ConnectionOptions,
    JobDeadline,
    LakeOptions,
    Logs,
    PlanningOptions,
    command,
)
from evenkeel.cli.output import escape, fail, out, print_json, working
from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import show
from evenkeel.model.verdict import Severity
from evenkeel.windows.rules import read_span

if TYPE_CHECKING:
    from evenkeel.model.audit import Audit
    from evenkeel.stages.blame import Blame

LONGEST_PERIOD = timedelta(days=3650)
_COLOURS = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
Since = Annotated[str, typer.Option("--since", metavar="SPAN", help="How far to look back, such as 7d or 12h.")]


@dataclass(frozen=True, kw_only=True)
class AuditCommandOptions(ConnectionOptions, PlanningOptions):
    """For `audit`, which reads the lake, and ZooKeeper where it is known."""


@command
def audit(
    where: AuditCommandOptions,
    since: Since = "7d",
    logs: Logs = DEFAULT_LOGS,
    job_deadline: JobDeadline = DEFAULT_JOB_DEADLINE_S,
) -> None:
    """Compare runs with their plans, learn from them, and list what needs attention.

    Exit code 1: there is a critical finding. What was learnt is used by the next plan. Marks and switches are read from
    ZooKeeper if it is known, else from the newest snapshot.
    """
    from evenkeel.stages.audit import AuditOptions, audit_cluster

    period = _parse_period(since)
    lake, cluster, now = where.lake, where.cluster_name, datetime.now(UTC)
    knows_zookeeper = (where.zookeeper or where.section_of(cluster).zookeeper) is not None
    connection = where.connection_to(cluster) if knows_zookeeper else None
    options = AuditOptions(period=period, deadline_s=job_deadline)
    log = logs / f"audit-{now:%Y%m%dT%H%M%SZ}.log"
    with working("reading the lake") as tell:
        found = audit_cluster(
            lake, connection, cluster, where.settings_for(cluster), where.master, now, options, log, tell
        )
    critical = found.of(Severity.CRITICAL)
    if not where.as_json:
        _print_audit(found)
    elif not critical:
        print_json(found.to_json())
    if critical:
        fail(where.as_json, found.to_json(), f"{critical[0].sentence}: {critical[0].remedy}")


@command
def blame(
    where: LakeOptions,
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE", help="Bundle, tenant/namespace/0x…_0x….")],
    since: Since = "7d",
) -> None:
    """Show who owned a bundle when, who moved it, and why.

    A bundle that came from a split is followed back through its parents.
    """
    from evenkeel.stages.blame import blame_bundle

    period = _parse_period(since)
    with working("reading the snapshots"):
        found = blame_bundle(where.lake, where.cluster_name, bundle, datetime.now(UTC), period)
    if where.as_json:
        print_json(found.to_json())
    else:
        _print_blame(found)


def _parse_period(text: str) -> timedelta:
    try:
        period = read_span(text)
    except (ValueError, OverflowError):
        period = timedelta(0)
    if not timedelta(0) < period <= LONGEST_PERIOD:
        raise InputError(f"--since {show(text)} is not a period to look back on", "write it as 7d or 12h")
    return period


def _print_audit(found: Audit) -> None:
    from rich.table import Table

    record = found.record
    out.print(f"audit [bold]{found.audit_id}[/] of cluster {escape(record.cluster)}: {record.snapshots} snapshots")
    measured = [row for row in found.figures if row.wape_ratio is not None]
    if measured:
        table = Table(box=None)
        for head in ("run", "after", "resource", "error", "bias", "MASE", "placement", "load", "cpu model"):
            table.add_column(head)
        for row in measured:
            shares = (row.placement_ratio, row.load_ratio, row.cpu_model_ratio)
            table.add_row(
                escape(row.run_id),
                f"{row.horizon_s / 60:g} min",
                row.resource,
                _percent(row.wape_ratio),
                _percent(row.bias_ratio),
                "–" if row.mase is None else f"{row.mase:.2f}",
                *map(_percent, shares),
            )
        out.print(table)
    for finding in found.findings:
        colour = _COLOURS[Severity(finding.severity)]
        remedy = f" → {escape(finding.remedy)}" if finding.remedy else ""
        out.print(f"[{colour}]{finding.severity}[/] {escape(finding.sentence)}{remedy}")
    out.print(f"report: {escape(found.uri)}/report.html")


def _print_blame(found: Blame) -> None:
    out.print(f"[bold]{escape(found.bundle)}[/] since {found.since}, by {found.snapshots} snapshots")
    out.print(f"  first seen on {escape(found.first_owner or 'nobody')}")
    for move in found.moves:
        child = "" if move.bundle == found.bundle else f" (as {escape(move.bundle)})"
        out.print(
            f"  by {move.seen_at[:19]} to [bold]{escape(move.destination)}[/]{child}: {move.mover}, "
            f"{escape(move.evidence)}"
        )
        for words in (move.reason, move.approval):
            if words:
                out.print(f"    {escape(words)}")
    out.print(f"  now on {escape(found.owner or 'nobody')}")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
