"""`evenkeel apply`, `evenkeel verify` and `evenkeel runs`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.runs import RunStore
from evenkeel.cli.options import (
    AsJson,
    Cluster,
    ConfigurationStore,
    LakeUri,
    MaybeLakeUri,
    PulsarRoot,
    SettingsFile,
    ZooKeeper,
    connect,
    load_settings,
    locate,
)
from evenkeel.cli.output import escape, fail, out, print_json, reporting, working
from evenkeel.cli.pictures import print_realised, print_runs
from evenkeel.cli.plans import PlanReference
from evenkeel.cli.progress import following
from evenkeel.execution.verification import Verification
from evenkeel.model.errors import InputError
from evenkeel.model.run import RunRecord, RunState, StepState

MOST_SENTENCES_SHOWN = 20
NOT_AS_PLANNED = "the realised placement is not the planned one: see the deviations"


def apply(
    plan: PlanReference,
    zookeeper: ZooKeeper,
    cluster: Cluster,
    lake: MaybeLakeUri = None,
    pulsar_root: PulsarRoot = "",
    configuration_zookeeper: ConfigurationStore = None,
    settings: SettingsFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Prove every step, write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Apply an approved plan; applying it again goes on where the journal ends."""
    from evenkeel.stages.apply import apply_plan

    with reporting(as_json):
        place, reference = locate("plans", plan, lake)
        stored = PlanStore(place).load(reference)
        connection = connect(cluster, zookeeper, pulsar_root, configuration_zookeeper)
        with following(stored.steps, as_json) as report:
            run = apply_plan(place, stored.plan_id, connection, load_settings(settings), dry_run, report)
        if as_json and run.state is RunState.DONE:
            print_json(summarise_run(run))
        if not as_json:
            print_run(run)
        if run.state is not RunState.DONE:
            fail(as_json, summarise_run(run), run.detail)


def verify(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, a beginning of it, or its URI.")],
    zookeeper: ZooKeeper,
    lake: MaybeLakeUri = None,
    pulsar_root: PulsarRoot = "",
    configuration_zookeeper: ConfigurationStore = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Snapshot the cluster again and compare it with what the plan predicted."""
    from evenkeel.stages.verify import verify_run

    with reporting(as_json):
        place, reference = locate("runs", run, lake)
        record = RunStore(place).load(reference)
        connection = connect(record.cluster, zookeeper, pulsar_root, configuration_zookeeper)
        with working("reading the cluster again"):
            result = verify_run(place, record.run_id, connection, load_settings(settings))
        if as_json and result.passed:
            print_json(result.to_json())
        if not as_json:
            print_verification(result)
        if not result.passed:
            fail(as_json, result.to_json(), NOT_AS_PLANNED)


def runs(
    lake: LakeUri,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Only the runs of this cluster.")] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option("--zookeeper", help="host:port,host:port; shows runs that are under way or broke off too."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the runs, newest first: what became of them, and why those that stopped did."""
    from evenkeel.stages.runs import list_runs

    with reporting(as_json):
        if zookeeper is not None and cluster is None:
            raise InputError("--zookeeper needs to know which cluster to look at", "give --cluster too")
        connection = None if zookeeper is None else connect(str(cluster), zookeeper)
        with working("reading the runs"):
            listed = list_runs(Lake(lake), cluster, connection)
        if as_json:
            print_json({"runs": [run.to_json() for run in listed]})
        else:
            print_runs(listed)


def print_verification(result: Verification) -> None:
    """What a run did to the load, and where the cluster is not as planned."""
    print_realised(result.brokers)
    out.print(f"{result.settled} of {result.planned} steps settled")
    for deviation in result.deviations[:MOST_SENTENCES_SHOWN]:
        out.print(f"[yellow]deviation:[/] {escape(deviation)}")


def summarise_run(run: RunRecord) -> dict[str, Any]:
    """The figures that `apply --json` prints."""
    begun = (StepState.INTENDED, StepState.APPLIED, StepState.SETTLED, StepState.FAILED)
    return {
        "run_id": run.run_id,
        "plan_id": run.plan_id,
        "epoch": run.epoch,
        "applied": sum(map(run.count, begun)),
        "settled": run.count(StepState.SETTLED),
        "skipped": run.count(StepState.SKIPPED),
        "failed": run.count(StepState.FAILED),
        "proved": run.count(StepState.PROVED),
        "state": run.state,
        "dry_run": run.dry_run,
        "detail": run.detail,
    }


def print_run(run: RunRecord) -> None:
    """A run in a few lines, with every step that was skipped or failed."""
    summary = summarise_run(run)
    out.print(f"run [bold]{run.run_id}[/] {run.state}{' (dry run)' if run.dry_run else ''}, epoch {run.epoch}")
    for state in ("applied", "settled", "skipped", "failed", "proved"):
        if summary[state]:
            out.print(f"  {summary[state]} {state}")
    unusual = [result for result in run.results if result.state in (StepState.SKIPPED, StepState.FAILED)]
    for result in unusual[:MOST_SENTENCES_SHOWN]:
        out.print(f"  [yellow]{result.state}[/] {escape(result.bundle)}: {escape(result.detail)}")
