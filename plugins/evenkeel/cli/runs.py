"""`evenkeel apply`, `evenkeel verify` and `evenkeel runs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenkeel.cli.options import ConnectionOptions, LakeOptions, LiveOptions, PlanReference, RunReference, command
from evenkeel.cli.output import err, escape, fail, out, print_json, print_next, working
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.model.run import RunRecord, RunState, StepState

if TYPE_CHECKING:
    from evenkeel.execution.verification import Verification

MOST_SENTENCES_SHOWN = 20
NOT_AS_PLANNED = "the cluster is not as planned: see the deviations"


@command
def apply(
    plan: PlanReference,
    where: LiveOptions,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every step against the cluster, but write nothing.")
    ] = False,
) -> None:
    """Apply an approved plan, or continue an interrupted run of it.

    Pulsar's own shedding and splitting are switched off during the run and restored afterwards.
    """
    from evenkeel.adapters.lake.plans import PlanStore
    from evenkeel.cli.plans import describe_approval
    from evenkeel.cli.progress import following
    from evenkeel.stages.apply import apply_plan

    lake, reference = where.locate("plans", plan)
    with working("reading the plan"):
        stored = PlanStore(lake).load(reference, where.known_cluster)
    cluster = where.cluster or stored.plan.cluster
    connection, settings = where.connection_to(cluster), where.settings_for(cluster)
    approvals = where.approvals_for(cluster)
    with following(stored.steps, where.as_json) as report:
        run = apply_plan(lake, stored.plan_id, connection, settings, dry_run, report, approvals=approvals)
    approval = describe_approval(lake, stored.plan_id)
    told = summarise_run(run) | {"approval": approval}
    if where.as_json and run.state is RunState.DONE:
        print_json(told)
    if not where.as_json:
        print_run(run)
        out.print(f"approval: {escape(approval or 'none yet')}")
    if run.state is not RunState.DONE:
        fail(where.as_json, told, run.detail)
    if not where.as_json:
        then = f"apply {short_id(stored.plan_id)}" if dry_run else f"verify {run.run_id}"
        print_next(where.next_command(then, is_live=True))


@command
def verify(run: RunReference, where: LiveOptions) -> None:
    """Compare the cluster after a run with what the plan predicted.

    Takes a new snapshot of the cluster.
    """
    from evenkeel.adapters.lake.runs import RunStore
    from evenkeel.stages.verify import verify_run

    lake, reference = where.locate("runs", run)
    record = RunStore(lake).load(reference, where.known_cluster)
    connection, settings = where.connection_to(record.cluster), where.settings_for(record.cluster)
    with working("reading the cluster again"):
        result = verify_run(lake, record.run_id, connection, settings)
    if where.as_json and result.passed:
        print_json(result.to_json())
    if not where.as_json:
        print_verification(result)
    if not result.passed:
        fail(where.as_json, result.to_json(), NOT_AS_PLANNED)
    if not where.as_json:
        print_next(where.next_command("runs"))


@dataclass(frozen=True, kw_only=True)
class RunsOptions(ConnectionOptions, LakeOptions):
    """For `runs`, which reads the lake, and ZooKeeper where it is known."""


@command
def runs(where: RunsOptions) -> None:
    """List runs, newest first, with their outcome.

    --cluster lists the runs of that cluster only. Runs in progress and interrupted runs are listed too if the
    cluster's ZooKeeper is known.
    """
    from evenkeel.cli.pictures import print_runs
    from evenkeel.stages.runs import list_runs

    lake, cluster = where.lake, where.known_cluster
    if where.zookeeper is not None and cluster is None:
        raise InputError("--zookeeper needs to know which cluster to look at", "give --cluster too")
    knows_zookeeper = (where.zookeeper or where.section_of(cluster).zookeeper) is not None
    connection = where.connection if knows_zookeeper else None
    with working("reading the runs"):
        try:
            listed = list_runs(lake, where.cluster, connection)
        except UnavailableError as error:
            if where.zookeeper is not None:
                raise
            # Nobody asked for ZooKeeper by name, and what is in the lake is worth showing without it.
            err.print(f"[yellow]warning:[/] only finished runs are listed: {escape(error.cause)}")
            listed = list_runs(lake, where.cluster, None)
    if where.as_json:
        print_json({"runs": [run.to_json() for run in listed]})
    else:
        print_runs(listed)


def print_verification(result: Verification) -> None:
    """Print what a run did to the load, and where the cluster is not as planned."""
    from evenkeel.cli.pictures import print_realised

    print_realised(result.brokers)
    out.print(f"{result.settled} of {result.planned} steps settled{_confirm_owners(result)}")
    for finding in result.findings:
        out.print(escape(finding))
    for deviation in result.deviations[:MOST_SENTENCES_SHOWN]:
        out.print(f"[yellow]deviation:[/] {escape(deviation)}")


def _confirm_owners(result: Verification) -> str:
    return "" if result.deviations else f"; snapshot {result.snapshot_id} confirms every new owner"


def summarise_run(run: RunRecord) -> dict[str, Any]:
    """Return what `apply --json` prints: the counts are of what this run did, not of earlier runs of the plan."""
    begun = (StepState.INTENDED, StepState.APPLIED, StepState.SETTLED, StepState.FAILED)
    settled = run.count_own(StepState.SETTLED)
    return {
        "run_id": run.run_id,
        "plan_id": run.plan_id,
        "epoch": run.epoch,
        "applied": run.count_own(*begun),
        "settled": settled,
        "settled_before": run.count(StepState.SETTLED) - settled,
        "skipped": run.count_own(StepState.SKIPPED),
        "failed": run.count_own(StepState.FAILED),
        "proved": run.count_own(StepState.PROVED),
        "state": run.state,
        "dry_run": run.dry_run,
        "detail": run.detail,
    }


def print_run(run: RunRecord) -> None:
    """Print a run in a few lines, with the steps that were skipped or failed."""
    summary = summarise_run(run)
    out.print(f"run [bold]{run.run_id}[/] {run.state}{' (dry run)' if run.dry_run else ''}, epoch {run.epoch}")
    for state in ("applied", "settled", "settled_before", "skipped", "failed", "proved"):
        if summary[state]:
            out.print(f"  {summary[state]} {state.replace('_', ' ')}")
    if run.detail and run.state is RunState.DONE:
        out.print(f"  [yellow]{escape(run.detail)}[/]")
    unusual = [
        result
        for result in run.results
        if result.state in (StepState.SKIPPED, StepState.FAILED) and result.earlier_epoch is None
    ]
    for result in unusual[:MOST_SENTENCES_SHOWN]:
        out.print(f"  [yellow]{result.state}[/] {escape(result.bundle)}: {escape(result.detail)}")
