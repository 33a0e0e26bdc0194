"""`evenkeel demo`: the whole way on this machine, with a real ZooKeeper, Spark and Airflow, and simulated brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore, StoredPlan
from evenkeel.cli.local import Brokers, Bundles, Kind, Seed
from evenkeel.cli.local_stack import FleetSize, LocalStack
from evenkeel.cli.options import AsJson
from evenkeel.cli.output import escape, fail, out, print_json, reporting, working
from evenkeel.cli.pictures import print_plan, print_realised
from evenkeel.execution.verification import BrokerCheck
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RunStoppedError
from evenkeel.orchestration.airflow_client import PendingApproval, TaskStates
from evenkeel.orchestration.local_airflow import LocalAirflow
from evenkeel.resources import find_resource

COLLECT_DEADLINE_S = 240.0
REBALANCE_DEADLINE_S = 480.0
CONNECTION_ID = "evenkeel_default"


def demo(
    brokers: Brokers = 8,
    bundles: Bundles = 320,
    load_manager: Kind = LoadManagerKind.EXTENSIBLE,
    seed: Seed = 1,
    home: Annotated[Path, typer.Option("--home", help="Where the demo keeps its files.")] = Path(".evenkeel/demo"),
    as_json: AsJson = False,
) -> None:
    """Rebalance a simulated cluster: snapshot, plan, check, approve, apply, verify, all by Airflow."""
    with reporting(as_json):
        folder = home / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        folder.mkdir(parents=True)
        show = _Show(quiet=as_json)
        with ExitStack() as stack:
            result = _play(stack, folder, FleetSize(brokers, bundles, load_manager, seed), show)
        if as_json and result["passed"]:
            print_json(result)
        if not result["passed"]:
            fail(as_json, result, "the realised placement is not the planned one: look at the report and the run")


@dataclass(frozen=True, slots=True)
class _Show:
    """What the audience sees; nothing where the result is asked for as JSON."""

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
    show.say("[green]✓[/] Dag collect_load: the cluster's load is in the lake, and passed its gate")
    plan_id, run_id = _rebalance(airflow, lake, show)
    return _conclude(airflow, run_id, PlanStore(lake).load(plan_id), show, time.monotonic() - started_s)


def _start_airflow(folder: Path, connection: ClusterConnection, lake: Lake) -> LocalAirflow:
    described = {
        "conn_type": "evenkeel",
        "host": connection.zookeeper,
        "extra": {"cluster": connection.cluster, "lake": lake.uri},
    }
    return LocalAirflow(folder / "airflow", find_resource("dags").parent, {CONNECTION_ID: described})


def _collect(airflow: LocalAirflow) -> None:
    """Let the Dag run once by its schedule; more snapshots would only compete for the cores of one machine."""
    airflow.unpause("collect_load")
    run_id = airflow.wait_for_first_run("collect_load", COLLECT_DEADLINE_S)
    _wait(airflow, "collect_load", run_id, COLLECT_DEADLINE_S)
    airflow.pause("collect_load")


def _rebalance(airflow: LocalAirflow, lake: Lake, show: _Show) -> tuple[str, str]:
    """Run the Dag, and approve the plan that it shows; answers the plan's id and the Dag run's."""
    approved: list[str] = []

    def approve(question: PendingApproval) -> bool:
        plan_id = str(question.plan_id)
        show.say("[green]✓[/] Dag rebalance_window: the plan has passed its gate and waits for approval")
        show.draw(lambda: print_plan(PlanStore(lake).load(plan_id)))
        show.say(f"[green]✓[/] approved by {escape(airflow.user)} through Airflow's REST API")
        approved.append(plan_id)
        return True

    run_id = airflow.trigger("rebalance_window")
    airflow.unpause("rebalance_window")
    _wait(airflow, "rebalance_window", run_id, REBALANCE_DEADLINE_S, approve)
    if not approved:
        raise RunStoppedError("the cluster needs no move", "try another --seed")
    return approved[-1], run_id


def _conclude(airflow: LocalAirflow, run_id: str, stored: StoredPlan, show: _Show, seconds: float) -> dict[str, Any]:
    verification: dict[str, Any] = airflow.xcom("rebalance_window", run_id, "verify_run")
    checks = [BrokerCheck(**{k: v for k, v in row.items() if k != "error"}) for row in verification["brokers"]]
    outside = sorted({row.broker_id for row in stored.brokers if row.used_after > row.band_limit})
    result = {
        "plan_id": stored.plan_id,
        "run_id": verification["run_id"],
        "planned": verification["planned"],
        "settled": verification["settled"],
        "passed": verification["passed"],
        "brokers_outside_band": outside,
        "report": f"{stored.uri}/report.html",
        "seconds": round(seconds, 1),
    }
    show.draw(lambda: print_realised(checks))
    show.say(
        f"[green]✓[/] {result['settled']} of {result['planned']} steps settled, every owner proved by a new snapshot"
    )
    band = "every broker is inside the band" if not outside else f"outside the band: {', '.join(outside)}"
    show.say(f"{'[green]✓[/]' if not outside else '[yellow]![/]'} {band}")
    show.say(f"report: {escape(result['report'])}")
    show.say(f"done in {seconds:.0f} s; everything that was started is being ended")
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
    """Say which task of a run failed, and where its log is."""
    states = airflow.task_states(dag_id, run_id)
    failed = next((task for task, state in states.items() if state == "failed"), "none")
    raise RunStoppedError(f"task {failed} of Dag {dag_id} failed", f"read the logs in {airflow.home}")
