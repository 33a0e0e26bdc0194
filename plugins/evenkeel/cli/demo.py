"""`evenkeel demo`: a whole rebalance with simulated brokers and a real ZooKeeper, Spark and Airflow."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.store import Lake
from evenkeel.cli.options import AsJson, command
from evenkeel.cli.output import escape, fail, out, print_json, working
from evenkeel.cli.pictures import print_plan, print_realised
from evenkeel.execution.measured_load import BrokerCheck
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.local.airflow_client import PendingApproval, TaskStates
from evenkeel.local.local_airflow import LocalAirflow
from evenkeel.local.stack import FleetSize, LocalStack
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RunStoppedError
from evenkeel.resources import find_resource

COLLECT_DEADLINE_S = 240.0
REBALANCE_DEADLINE_S = 480.0
CONNECTION_ID = "evenkeel_default"


Home = Annotated[
    Path, typer.Option("--home", envvar="EVENKEEL_DEMO_HOME", metavar="FOLDER", help="Where the demo keeps its files.")
]


@command
def demo(
    brokers: Annotated[int, typer.Option("--brokers", metavar="N", min=2, help="Number of simulated brokers.")] = 8,
    bundles: Annotated[int, typer.Option("--bundles", metavar="N", min=2, help="Number of bundles.")] = 320,
    load_manager: Annotated[
        LoadManagerKind, typer.Option("--load-manager", help="Pulsar's load manager.")
    ] = LoadManagerKind.EXTENSIBLE,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed for the simulated traffic.")] = 1,
    home: Home = Path(".evenkeel/demo"),
    as_json: AsJson = False,
) -> None:
    """Rebalance a simulated cluster with a real Airflow and Spark.

    Starts ZooKeeper, simulated brokers and Airflow, lets the Dags snapshot, plan, check, apply and verify, approves
    the plan through Airflow's REST API, and shuts everything down again.
    """
    folder = home / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    folder.mkdir(parents=True)
    show = _Show(quiet=as_json)
    with ExitStack() as stack:
        result = _play(stack, folder, FleetSize(brokers, bundles, load_manager, seed), show)
    if as_json and result["passed"]:
        print_json(result)
    if not result["passed"]:
        fail(as_json, result, "the cluster is not as planned: read the report and the run")


@dataclass(frozen=True, slots=True)
class _Show:
    """What is printed while the demo runs; nothing with --json."""

    quiet: bool

    def say(self, text: str) -> None:
        if not self.quiet:
            out.print(text)

    def draw(self, picture: Callable[[], None]) -> None:
        if not self.quiet:
            picture()


def _play(stack: ExitStack, folder: Path, size: FleetSize, show: _Show) -> dict[str, Any]:
    started_s = time.monotonic()
    lake = Lake(str(folder / "lake"))
    with working(f"starting ZooKeeper and {size.brokers} simulated brokers"):
        cluster = stack.enter_context(LocalStack(folder / "cluster", size))
    show.say(f"[green]✓[/] {size.brokers} {size.load_manager} brokers carry {size.bundles} bundles")
    with working("starting Airflow: API server, scheduler, Dag processor"):
        airflow = stack.enter_context(_start_airflow(folder, cluster.connection, lake))
    show.say(f"[green]✓[/] Airflow is up at {airflow.url}")
    _collect(airflow)
    show.say("[green]✓[/] Dag collect_load: the cluster's load is in the lake and has passed its gate")
    plan_id, run_id = _rebalance(airflow, lake, show)
    return _conclude(airflow, run_id, PlanStore(lake).load(plan_id), show, time.monotonic() - started_s)


def _start_airflow(folder: Path, connection: ClusterConnection, lake: Lake) -> LocalAirflow:
    described = {
        "conn_type": "evenkeel",
        "host": connection.zookeeper,
        "extra": {"cluster": connection.cluster, "lake": lake.uri, "approval": {"unsigned": True}},
    }
    return LocalAirflow(folder / "airflow", find_resource("dags").parent, {CONNECTION_ID: described})


def _collect(airflow: LocalAirflow) -> None:
    """Let the Dag run once by its schedule; more snapshots would only compete for this machine's cores."""
    airflow.unpause("collect_load")
    run_id = airflow.wait_for_first_run("collect_load", COLLECT_DEADLINE_S)
    _wait(airflow, "collect_load", run_id, COLLECT_DEADLINE_S)
    airflow.pause("collect_load")


def _rebalance(airflow: LocalAirflow, lake: Lake, show: _Show) -> tuple[str, str]:
    """Run the Dag, approve the plan that it shows, and return the ids of the plan and of the Dag run."""
    approved: list[str] = []

    def approve(question: PendingApproval) -> bool:
        plan_id = str(question.plan_id)
        show.say("[green]✓[/] Dag rebalance_window: the plan has passed its gate and is waiting for approval")
        show.draw(lambda: print_plan(PlanStore(lake).load(plan_id)))
        show.say(f"[green]✓[/] approved by {escape(airflow.user)} through Airflow's REST API")
        approved.append(plan_id)
        return True

    run_id = airflow.trigger("rebalance_window")
    airflow.unpause("rebalance_window")
    _wait(airflow, "rebalance_window", run_id, REBALANCE_DEADLINE_S, approve)
    if not approved:
        raise RunStoppedError("the cluster is balanced already, so there is no plan to approve", "try another --seed")
    return approved[-1], run_id


def _conclude(airflow: LocalAirflow, run_id: str, stored: StoredPlan, show: _Show, seconds: float) -> dict[str, Any]:
    verification: dict[str, Any] = airflow.xcom("rebalance_window", run_id, "verify_run")
    checks = [BrokerCheck(**{k: v for k, v in row.items() if k != "error"}) for row in verification["brokers"]]
    outside = verification["brokers_outside_band"]
    result = {
        "plan_id": stored.plan_id,
        "run_id": verification["run_id"],
        "planned": verification["planned"],
        "settled": verification["settled"],
        "passed": verification["passed"],
        "brokers_outside_band": outside,
        "silent_brokers": verification["silent_brokers"],
        "findings": verification["findings"],
        "report": f"{stored.uri}/report.html",
        "seconds": round(seconds, 1),
    }
    show.draw(lambda: print_realised(checks))
    snapshot = escape(verification["snapshot_id"])
    steps = f"{result['settled']} of {result['planned']} steps settled"
    show.say(f"[green]✓[/] {steps}; snapshot {snapshot} confirms every new owner")
    is_even = not outside and not verification["silent_brokers"]
    for finding in verification["findings"]:
        show.say(f"{'[green]✓[/]' if is_even else '[yellow]![/]'} {escape(finding)}")
    show.say(f"report: {escape(result['report'])}")
    show.say(f"done in {seconds:.0f} s; shutting down")
    return result


def _wait(
    airflow: LocalAirflow,
    dag_id: str,
    run_id: str,
    deadline_s: float,
    on_question: Callable[[PendingApproval], bool | None] = lambda question: None,
) -> None:
    with working(f"Dag {dag_id}") as say:

        def on_state(states: TaskStates) -> None:
            running = [task for task, state in states.items() if state == "running"]
            say(f"Dag {dag_id}: {', '.join(running) or 'scheduling'}")

        if airflow.wait(dag_id, run_id, deadline_s, on_state, on_question) != "success":
            _raise_for(airflow, dag_id, run_id)


def _raise_for(airflow: LocalAirflow, dag_id: str, run_id: str) -> None:
    """Raise an error that names the failed task and the folder of the logs."""
    states = airflow.task_states(dag_id, run_id)
    failed = next((task for task, state in states.items() if state == "failed"), "none")
    raise RunStoppedError(f"task {failed} of Dag {dag_id} failed", f"read the logs in {airflow.home}")
