"""`evenkeel plan`, `show`, `check` and `approve`."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore, StoredPlan
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.cli.options import (
    DEFAULT_JOB_DEADLINE_S,
    DEFAULT_MASTER,
    AsJson,
    Cluster,
    JobDeadline,
    LakeUri,
    Master,
    MaybeLakeUri,
    SettingsFile,
    current_user,
    load_settings,
    locate,
)
from evenkeel.cli.output import escape, fail, out, print_json, reporting, working
from evenkeel.cli.pictures import print_balance, print_counterfactual, print_curve, print_plan, print_pools, print_steps
from evenkeel.model.request import STRATEGIES
from evenkeel.model.verdict import Verdict

PlanReference = Annotated[str, typer.Argument(metavar="PLAN", help="A plan's id, a beginning of it, or its URI.")]


def plan(
    lake: LakeUri,
    cluster: Cluster,
    snapshot: Annotated[str | None, typer.Option("--snapshot", help="Snapshot id; default the newest.")] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", help=f"Who decides what moves: {', '.join(STRATEGIES)}.")
    ] = STRATEGIES[0],
    settings: SettingsFile = None,
    master: Master = DEFAULT_MASTER,
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", min=0.0, help="Seconds for the search of each pool; then the best plan so far."),
    ] = None,
    job_deadline: JobDeadline = DEFAULT_JOB_DEADLINE_S,
    logs: Annotated[Path, typer.Option("--logs", help="Where spark-submit's output goes.")] = Path(".evenkeel/logs"),
    as_json: AsJson = False,
) -> None:
    """Compute which bundles to move where, and store the plan in the lake."""
    from evenkeel.stages.check import check_snapshot
    from evenkeel.stages.plan import request_plan, run_jobs

    with reporting(as_json):
        started_s = time.monotonic()
        store, chosen = Lake(lake), load_settings(settings)
        if deadline is not None:
            chosen = replace(chosen, search_deadline_s=deadline)
        with working("checking the snapshot") as say:
            # Chosen once: while the gate judges it, a newer one may come in.
            snapshot_id = SnapshotStore(store).load(cluster, snapshot).snapshot_id
            check_snapshot(store, cluster, snapshot_id, chosen, master).require_passed()
            request = request_plan(store, cluster, snapshot_id, strategy, chosen, uuid.uuid4().hex)
            answer = run_jobs(store, request, master, logs, job_deadline, lambda job: say(f"Spark: {job}"))
        seconds = {"solve": answer["seconds"]["solve"], "total": round(time.monotonic() - started_s, 3)}
        stored = PlanStore(store).load(answer["plan_id"])
        if as_json:
            print_json(_summary(stored, seconds))
        else:
            print_plan(stored)


def show(
    plan: PlanReference,
    lake: MaybeLakeUri = None,
    steps: Annotated[bool, typer.Option("--steps", help="Show the steps too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a plan: balance before and after, moves against their bound, what binds, what Pulsar would have done."""
    with reporting(as_json):
        place, reference = locate("plans", plan, lake)
        stored = PlanStore(place).load(reference)
        if as_json:
            listed = {"steps": [asdict(step) for step in stored.steps]} if steps else {}
            print_json(_summary(stored, None) | listed)
            return
        print_plan(stored)
        print_curve(stored.plan.curve)
        print_pools(stored.plan.pools)
        print_counterfactual(stored.plan.counterfactual)
        print_balance(stored.brokers)
        if steps:
            print_steps(stored.steps)


def check(
    plan: PlanReference, lake: MaybeLakeUri = None, master: Master = DEFAULT_MASTER, as_json: AsJson = False
) -> None:
    """Judge a plan by the gate, store the verdict, and render the report."""
    from evenkeel.stages.check import check_plan

    with reporting(as_json):
        place, reference = locate("plans", plan, lake)
        stored = PlanStore(place).load(reference)
        with working("judging the plan"):
            verdict = check_plan(place, stored.plan_id, master)
        report = {"plan_id": stored.plan_id, "report_uri": f"{stored.uri}/report.html"}
        if not as_json:
            _print_verdict(verdict)
            out.print(f"report: {escape(report['report_uri'])}")
        elif verdict.passed:
            print_json(verdict.to_json() | report)
        if not verdict.passed:
            fail(as_json, verdict.to_json() | report, f"the gate blocks the plan: {verdict.blocking[0].detail}")


def approve(
    plan: PlanReference,
    lake: MaybeLakeUri = None,
    by: Annotated[str | None, typer.Option("--by", help="Who approves; default the user who runs this.")] = None,
    as_json: AsJson = False,
) -> None:
    """Approve exactly this plan; the approval is bound to its id."""
    from evenkeel.stages.approve import approve_plan

    with reporting(as_json):
        place, reference = locate("plans", plan, lake)
        approval = approve_plan(place, reference, by or current_user(), "command line")
        if as_json:
            print_json(approval.to_json())
        else:
            out.print(f"plan [bold]{approval.plan_id}[/] approved by {escape(approval.approved_by)}")


def _summary(stored: StoredPlan, seconds: dict[str, float] | None) -> dict[str, Any]:
    plan = stored.plan
    summary = {
        "plan_id": stored.plan_id,
        "plan_uri": stored.uri,
        "cluster": plan.cluster,
        "snapshot_id": plan.snapshot_id,
        "strategy": plan.strategy,
        "expires_at": plan.expires_at.isoformat(),
        "steps": plan.step_counts,
        "balance": plan.balance,
        "bounds": plan.bounds,
        "gap": plan.gap,
        "disruption": plan.disruption,
        "violations": plan.violations,
        "curve": plan.curve,
        "pools": plan.pools,
        "counterfactual": plan.counterfactual,
        "truncated": plan.truncated,
    }
    return summary if seconds is None else summary | {"seconds": seconds}


def _print_verdict(verdict: Verdict) -> None:
    for each in verdict.checks:
        mark = (
            "[green]passed[/]"
            if each.passed
            else f"[{'red' if each.severity == 'critical' else 'yellow'}]{each.severity}[/]"
        )
        out.print(f"{mark:>20}  {escape(each.name)}" + ("" if each.passed else f": {escape(each.detail)}"))
    out.print(f"{escape(verdict.subject)}: {'[green]passed[/]' if verdict.passed else '[red]blocked[/]'}")
