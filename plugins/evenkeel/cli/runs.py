"""`evenkeel apply` and `evenkeel verify`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.runs import RunStore
from evenkeel.cli.options import (
    AsJson,
    Cluster,
    ConfigurationStore,
    MaybeLakeUri,
    PulsarRoot,
    SettingsFile,
    ZooKeeper,
    connect,
    load_settings,
    locate,
)
from evenkeel.cli.output import counting, escape, fail, out, print_json, reporting, working
from evenkeel.cli.pictures import print_realised
from evenkeel.cli.plans import PlanReference
from evenkeel.model.run import RunRecord, RunState, StepResult, StepState

MOST_SENTENCES_SHOWN = 20


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
        with counting("applying", len(stored.steps)) as advance:

            def report(result: StepResult) -> None:
                advance(f"{result.bundle} {result.state}")

            run = apply_plan(place, stored.plan_id, connection, load_settings(settings), dry_run, report)
        if as_json and run.state is RunState.DONE:
            print_json(_summary(run))
        if not as_json:
            _print(run)
        if run.state is RunState.STOPPED:
            fail(as_json, _summary(run), run.detail)


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
            print_realised(result.brokers)
            out.print(f"{result.settled} of {result.planned} steps settled")
            for deviation in result.deviations[:MOST_SENTENCES_SHOWN]:
                out.print(f"[yellow]deviation:[/] {escape(deviation)}")
        if not result.passed:
            fail(as_json, result.to_json(), "the realised placement is not the planned one: see the deviations")


def _summary(run: RunRecord) -> dict[str, Any]:
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


def _print(run: RunRecord) -> None:
    summary = _summary(run)
    out.print(f"run [bold]{run.run_id}[/] {run.state}{' (dry run)' if run.dry_run else ''}, epoch {run.epoch}")
    for state in ("applied", "settled", "skipped", "failed", "proved"):
        if summary[state]:
            out.print(f"  {summary[state]} {state}")
    unusual = [result for result in run.results if result.state in (StepState.SKIPPED, StepState.FAILED)]
    for result in unusual[:MOST_SENTENCES_SHOWN]:
        out.print(f"  [yellow]{result.state}[/] {escape(result.bundle)}: {escape(result.detail)}")
