"""A real Airflow starts in a folder of its own, runs a Dag with an approval, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from evenkeel.local.airflow_client import PendingApproval
from evenkeel.local.local_airflow import LocalAirflow, find_free_port
from evenkeel.model.errors import RefusedError, UnavailableError
from support.waiting import eventually, scaled

PROJECT = Path(__file__).resolve().parents[2]
RUN_DEADLINE_S = scaled(120.0)
DAG_ID = "tiny"
TINY_DAG = '''
"""A Dag of the test's own that asks for approval as the real one does."""
import os

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseHook, Param, dag, task
from evenkeel.orchestration.approving import SHOWN_PLAN_ID, PlanApprovalOperator, plan_form, read_approver


class Asking(PlanApprovalOperator):
    """Asks about a plan that is in no lake."""

    def execute(self, context):
        plan_id = self.plan["plan_id"]
        self.body, self.params = f"Apply {plan_id}?", plan_form(plan_id)
        context["ti"].xcom_push(SHOWN_PLAN_ID, plan_id)
        return ApprovalOperator.execute(self, context)

    def _record_refusal(self, *given):
        print("nothing to record it beside")


@task
def plan(params):
    assert BaseHook.get_connection("evenkeel_default").host == "zk:2181"
    return {"plan_id": params["plan_id"]}


@task
def record(plan, answer):
    print("home is", os.environ["AIRFLOW_HOME"])
    person, answered_at = read_approver(answer, plan["plan_id"])
    return [person.name, answered_at]


@dag(schedule=None, params={"plan_id": Param("a" * 64, type="string")})
def tiny():
    made = plan()
    record(made, Asking(task_id="approve", cluster=None, plan=made, request={}).output)


tiny()
'''


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    folder = tmp_path_factory.mktemp("local-airflow")
    (folder / "dags").mkdir()
    (folder / "dags" / f"{DAG_ID}.py").write_text(TINY_DAG)
    connections = {"evenkeel_default": {"conn_type": "evenkeel", "host": "zk:2181"}}
    started = LocalAirflow(folder / "home", PROJECT, connections, dags=folder / "dags", dag_ids=[DAG_ID])
    with started as airflow:
        airflow.unpause(DAG_ID)
        yield airflow
    assert processes_of(started.home) == []


def processes_of(home: Path) -> list[str]:
    """Commands of processes that belong to an Airflow home."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AIRFLOW_HOME") == str(home):
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def describe(airflow: LocalAirflow, run_id: str) -> str:
    return "\n".join(airflow.task_log(DAG_ID, run_id, task) for task in ("plan", "approve"))


def assert_logged(airflow: LocalAirflow, run_id: str, task: str, line: str) -> None:
    """A task's last lines may reach its log a moment after its state is known."""
    assert eventually(lambda: line in airflow.task_log(DAG_ID, run_id, task)), describe(airflow, run_id)


def test_approval_is_recorded_with_the_name_of_the_user(airflow: LocalAirflow) -> None:
    run_id = airflow.trigger(DAG_ID, {"plan_id": "b" * 64})
    questions: list[PendingApproval] = []
    seen: list[str | None] = []
    state = airflow.wait(
        DAG_ID,
        run_id,
        RUN_DEADLINE_S,
        on_state=lambda states: seen.append(states["record"]),
        on_question=lambda question: questions.append(question) or True,  # type: ignore[func-returns-value]
    )
    assert state == "success", describe(airflow, run_id)
    assert seen[-1] == "success"
    assert questions[0].plan_id == "b" * 64
    assert questions[0].plan_id in questions[0].body
    assert airflow.xcom(DAG_ID, run_id, "record")[0] == airflow.user == "operator"
    assert airflow.xcom(DAG_ID, run_id, "approve")["plan_id"] == "b" * 64
    assert_logged(airflow, run_id, "record", f"home is {airflow.home}")
    with pytest.raises(RefusedError, match="409"):
        airflow.respond(DAG_ID, run_id, "approve", approve=False)


def test_approval_of_another_plan_fails_the_run_at_once(airflow: LocalAirflow) -> None:
    run_id = airflow.trigger(DAG_ID)

    def answer_for_another_plan(question: PendingApproval) -> None:
        airflow.respond(DAG_ID, run_id, question.task_id, approve=True, form={"plan_id": "c" * 64})

    assert airflow.wait(DAG_ID, run_id, RUN_DEADLINE_S, on_question=answer_for_another_plan) == "failed"
    assert airflow.task_states(DAG_ID, run_id) == {"plan": "success", "approve": "failed", "record": "upstream_failed"}
    assert_logged(airflow, run_id, "approve", "the response names " + "c" * 64)


def test_rejection_skips_the_rest(airflow: LocalAirflow) -> None:
    run_id = airflow.trigger(DAG_ID)
    state = airflow.wait(DAG_ID, run_id, RUN_DEADLINE_S, on_question=lambda question: False)
    assert state == "success", describe(airflow, run_id)
    assert airflow.task_states(DAG_ID, run_id)["record"] == "skipped"


def test_waiting_has_a_deadline(airflow: LocalAirflow) -> None:
    run_id = airflow.trigger(DAG_ID)
    with pytest.raises(UnavailableError, match="has not ended within 1 s"):
        airflow.wait(DAG_ID, run_id, 1)


def test_secrets_are_private_and_in_no_log(airflow: LocalAirflow) -> None:
    assert airflow.password_file.stat().st_mode & 0o077 == 0
    assert (airflow.home / "airflow.cfg").stat().st_mode & 0o077 == 0
    password = airflow.password_file.read_text().split('"')[3]
    for log in airflow.home.rglob("*.log"):
        assert password not in log.read_text(errors="replace"), log


def test_wrong_password_is_rejected(airflow: LocalAirflow) -> None:
    with pytest.raises(RefusedError, match="401"):
        airflow.log_in("wrong")


def test_dag_that_cannot_be_parsed_is_the_error(airflow: LocalAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow, "import_errors", lambda: {"bad.py": "ZeroDivisionError"})
    with pytest.raises(UnavailableError, match=r"cannot parse bad.py \(ZeroDivisionError\)"):
        airflow._is_parsed()


def test_module_does_not_import_airflow() -> None:
    code = "import sys, evenkeel.local.local_airflow; sys.exit('airflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=RUN_DEADLINE_S).returncode == 0


def test_free_port_can_be_bound() -> None:
    assert 0 < find_free_port() < 65536
