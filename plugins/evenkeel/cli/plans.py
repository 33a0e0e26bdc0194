"""`evenkeel plan`, `show`, `check` and `approve`."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenkeel.cli.options import (
    DEFAULT_JOB_DEADLINE_S,
    DEFAULT_LOGS,
    CheckOptions,
    JobDeadline,
    LakeOptions,
    Logs,
    PlanningOptions,
    PlanReference,
    command,
    current_person,
)
from evenkeel.cli.output import escape, fail, out, print_json, print_next, working
from evenkeel.cli.pictures import print_balance, print_counterfactual, print_curve, print_plan, print_pools, print_steps
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import InputError
from evenkeel.model.request import STRATEGIES
from evenkeel.model.verdict import Verdict

if TYPE_CHECKING:
    from evenkeel.adapters.lake.plans import StoredPlan
    from evenkeel.adapters.lake.store import Lake

# What `--json` shows of plan.json under the same names.
_SHOWN_FIELDS = (
    *("cluster", "snapshot_id", "strategy", "balance", "bounds", "gap", "disruption", "violations"),
    *("curve", "pools", "counterfactual", "truncated"),
)


@command
def plan(
    where: PlanningOptions,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="ID", help="Snapshot id or a unique prefix of it; default: the latest."),
    ] = None,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="NAME", help=f"Planning strategy: {', '.join(STRATEGIES)}.")
    ] = STRATEGIES[0],
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            metavar="SECONDS",
            min=0.0,
            help="Time limit of the search per pool; after that, the best plan so far is used.",
        ),
    ] = None,
    job_deadline: JobDeadline = DEFAULT_JOB_DEADLINE_S,
    logs: Logs = DEFAULT_LOGS,
) -> None:
    """Compute which bundles to move where, and store the plan.

    Nothing is written to ZooKeeper or to the brokers.
    """
    from evenkeel.adapters.lake.plans import PlanStore
    from evenkeel.stages.plan import make_plan

    started_s = time.monotonic()
    cluster, lake, settings, master = where.cluster_name, where.lake, where.settings, where.master
    if deadline is not None:
        settings = replace(settings, search_deadline_s=deadline)
    with working("checking the snapshot") as say:
        answer = make_plan(lake, cluster, snapshot, strategy, settings, master, logs, job_deadline, say)
    seconds = {"solve": answer["seconds"]["solve"], "total": round(time.monotonic() - started_s, 3)}
    stored = PlanStore(lake).load(answer["plan_id"])
    if where.as_json:
        print_json(_summary(stored, seconds))
    else:
        print_plan(stored)
        print_next(where.next_command(f"check {short_id(stored.plan_id)}"))


@command
def show(
    plan: PlanReference,
    where: LakeOptions,
    steps: Annotated[bool, typer.Option("--steps", help="List the steps too.")] = False,
) -> None:
    """Show a plan: balance before and after, bounds, cost, steps.

    Also shows what a shorter plan would achieve, what limits each pool, and what Pulsar itself would have done.
    """
    with working("reading the plan"):
        lake, stored = _load(where, plan)
        approval = describe_approval(lake, stored.plan_id)
    if where.as_json:
        listed = {"steps": [asdict(step) for step in stored.steps]} if steps else {}
        print_json(_summary(stored, None) | {"approval": approval} | listed)
        return
    print_plan(stored)
    out.print(f"approval: {escape(approval or 'none yet')}")
    print_curve(stored.plan.curve)
    print_pools(stored.plan.pools)
    print_counterfactual(stored.plan.counterfactual)
    print_balance(stored.brokers)
    if steps:
        print_steps(stored.steps)
    print_next(where.next_command(f"check {short_id(stored.plan_id)}"))


@command
def check(plan: PlanReference, where: CheckOptions) -> None:
    """Run the plan's gate, store the verdict, write report.html.

    A plan must pass its gate before it can be approved.
    """
    from evenkeel.stages.check import check_plan

    with working("running the plan's gate"):
        lake, stored = _load(where, plan)
        verdict = check_plan(lake, stored.plan_id, where.master, where.approval_rules_for(stored.plan.cluster))
    report = {"plan_id": stored.plan_id, "report_uri": f"{stored.uri}/report.html"}
    if not where.as_json:
        _print_verdict(verdict)
        out.print(f"report: {escape(report['report_uri'])}")
    elif verdict.passed:
        print_json(verdict.to_json() | report)
    if not verdict.passed:
        fail(where.as_json, verdict.to_json() | report, f"the gate blocks the plan: {verdict.blocking[0].detail}")
    if not where.as_json:
        print_next(where.next_command(f"approve {short_id(stored.plan_id)}"))


@command
def approve(
    plan: PlanReference,
    where: LakeOptions,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who approves; default: the current user.")
    ] = None,
) -> None:
    """Approve exactly this plan.

    The approval is for these steps only: a new plan needs a new approval. It is signed with the key that the
    configuration file names.
    """
    from evenkeel.stages.approve import approve_plan

    with working("reading the plan"):
        lake, stored = _load(where, plan)
    approvals = where.approvals_for(stored.plan.cluster)
    approval = approve_plan(lake, stored.plan_id, current_person(by), "command line", approvals)
    if where.as_json:
        print_json(approval.to_json())
        return
    out.print(f"plan [bold]{approval.plan_id}[/] {escape(approval.describe())}")
    print_next(where.next_command(f"apply {short_id(stored.plan_id)}", is_live=True))


def _load(where: LakeOptions, reference: str) -> tuple[Lake, StoredPlan]:
    from evenkeel.adapters.lake.plans import PlanStore

    lake, wanted = where.locate("plans", reference)
    return lake, PlanStore(lake).load(wanted, where.known_cluster)


def describe_approval(lake: Lake, plan_id: str) -> str | None:
    """A plan's approval in words; one that cannot be read keeps nobody from seeing the plan."""
    from evenkeel.adapters.lake.plans import PlanStore

    try:
        approval = PlanStore(lake).read_approval(plan_id)
    except InputError as error:
        return f"unreadable ({error.cause})"
    revoked = PlanStore(lake).find_revocation(plan_id)
    words = [] if approval is None else [approval.describe()]
    return ", then ".join([*words, *([] if revoked is None else [revoked])]) or None


def _summary(stored: StoredPlan, seconds: dict[str, float] | None) -> dict[str, Any]:
    document = stored.plan.to_json()
    summary = {
        "plan_id": stored.plan_id,
        "plan_uri": stored.uri,
        "expires_at": stored.plan.expires_at.isoformat(),
        "steps": document["step_counts"],
        **{name: document[name] for name in _SHOWN_FIELDS},
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
