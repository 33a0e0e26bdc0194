"""Questions in a running Airflow: every answer is recorded, no wrong request gets as far, and no mark is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from evenkeel.adapters.cluster.registrations import read_registrations
from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.local.airflow_client import PendingApproval
from evenkeel.local.local_airflow import LocalAirflow
from evenkeel.model.approval import Answer
from evenkeel.model.connection import ClusterConnection
from evenkeel.stages.drain import mark_brokers, read_marks

PROJECT = Path(__file__).resolve().parents[2]
RUN_DEADLINE_S = 600.0
DAG_IDS = ("rebalance_window", "drain_broker", "undrain_broker", "rollback_plan")
REASON = "not on a Monday"


@pytest.fixture(scope="module")
def airflow(cluster: ClusterConnection, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    """An Airflow for a cluster of which nobody approves what they asked for themselves."""
    home = tmp_path_factory.mktemp("airflow")
    configuration = home / "evenkeel.toml"
    configuration.write_text(
        f"""
        [clusters.{cluster.cluster}]
        zookeeper = "{cluster.zookeeper}"
        lake = "{lake.uri}"
        [clusters.{cluster.cluster}.approval]
        unsigned = true
        mode = "four-eyes"
        """
    )
    env = {"EVENKEEL_CONFIG": str(configuration)}
    with LocalAirflow(home, PROJECT, {}, dag_ids=DAG_IDS, env=env) as running:
        for dag_id in DAG_IDS:
            running.unpause(dag_id)
        yield running


@pytest.fixture(scope="module")
def broker(cluster: ClusterConnection) -> str:
    with open_cluster(cluster) as source:
        return read_registrations(source)[0].broker_id


def refuse(question: PendingApproval) -> bool:
    cast(dict[str, Any], question.form)["reason"] = REASON
    return False


@pytest.mark.timeout(2 * RUN_DEADLINE_S)
@pytest.mark.parametrize(
    ("dag_id", "params", "sentence"),
    [
        ("drain_broker", {"brokers": ["nobody:1"]}, "the cluster has no broker 'nobody:1'"),
        ("drain_broker", {"brokers": []}, "the parameter brokers is empty"),
        ("drain_broker", {"brokers": ["{broker}"], "deadline": "tomorrow"}, "deadline = 'tomorrow' is not usable"),
        ("drain_broker", {"brokers": ["{broker}"], "deadline": "2020-01-01T00:00:00Z"}, "has passed already"),
        ("drain_broker", {"brokers": ["{broker}"], "brokr": 1}, "there is no parameter 'brokr'"),
        ("rebalance_window", {"pinned_bundles": ["no/where/0x00000000_0x40000000"]}, "the cluster has no bundle"),
        ("rebalance_window", {"shedding_excluded_namespaces": ["no/where"]}, "the cluster has no namespace"),
        ("rebalance_window", {"snapshot": "20200101"}, "no snapshot"),
        ("rollback_plan", {"run": "0123"}, "no run and no plan"),
        ("undrain_broker", {"brokers": ["nobody:1"]}, "the cluster has no broker 'nobody:1'"),
    ],
)
def test_wrong_request_is_refused_before_anything_happens(
    airflow: LocalAirflow,
    cluster: ClusterConnection,
    lake: Lake,
    broker: str,
    dag_id: str,
    params: dict[str, Any],
    sentence: str,
) -> None:
    params = {name: [broker] if value == ["{broker}"] else value for name, value in params.items()}
    run_id = airflow.trigger(dag_id, params)
    assert airflow.wait(dag_id, run_id, RUN_DEADLINE_S) == "failed"
    states = airflow.task_states(dag_id, run_id)
    assert states.pop("check_request") == "failed"
    assert set(states.values()) <= {"upstream_failed", "skipped"}
    assert sentence in airflow.task_log(dag_id, run_id, "check_request")
    assert read_marks(cluster) == {}
    assert lake.names("requests") == []


@pytest.mark.timeout(2 * RUN_DEADLINE_S)
def test_rejected_drain_leaves_a_record_and_no_mark_of_its_own(
    airflow: LocalAirflow, cluster: ClusterConnection, lake: Lake, broker: str
) -> None:
    questions: list[PendingApproval] = []

    def answer(question: PendingApproval) -> bool:
        assert broker in read_marks(cluster)
        questions.append(question)
        return refuse(question)

    run_id = airflow.trigger("drain_broker", {"brokers": [broker], "reason": "new disk"})
    assert airflow.wait("drain_broker", run_id, RUN_DEADLINE_S, on_question=answer) == "success"
    states = airflow.task_states("drain_broker", run_id)
    assert (states["apply_plan"], states["remove_marks"]) == ("skipped", "success")
    assert read_marks(cluster) == {}
    plan_id = airflow.xcom("drain_broker", run_id, "check_drain")["plan_id"]
    (refusal,) = PlanStore(lake).read_refusals(plan_id)
    assert (refusal.answer, refusal.reason, refusal.answered_by) == (Answer.REJECTED, REASON, airflow.user)
    assert run_id in refusal.how
    assert PlanStore(lake).read_approval(plan_id) is None
    (question,) = questions
    assert f"**Empty {broker}: " in question.body
    assert f"{broker} is marked for draining by {airflow.user}" in question.body
    assert "new disk" in question.body

    # A mark that somebody else has set is not this run's to remove, and its plan shows the former answer.
    mark_brokers(cluster, [broker], "ada", "mine")
    run_id = airflow.trigger("drain_broker", {"brokers": [broker], "approval_timeout_minutes": 0.05})
    assert airflow.wait("drain_broker", run_id, RUN_DEADLINE_S) == "success"
    assert read_marks(cluster)[broker].who == "ada"
    shown = airflow.xcom("drain_broker", run_id, "check_drain")
    (timed_out,) = PlanStore(lake).read_refusals(shown["plan_id"])
    assert timed_out.answer is Answer.TIMED_OUT
    assert [warning for warning in shown["warnings"] if REASON in warning]
    assert RunStore(lake).ids() == []

    run_id = airflow.trigger("undrain_broker", {"brokers": [broker]})
    assert airflow.wait("undrain_broker", run_id, RUN_DEADLINE_S) == "success"
    assert airflow.xcom("undrain_broker", run_id, "unmark_brokers") == {"brokers": [broker], "unmarked": [broker]}
    assert read_marks(cluster) == {}


@pytest.mark.timeout(2 * RUN_DEADLINE_S)
def test_nobody_approves_what_they_asked_for_themselves(airflow: LocalAirflow, lake: Lake) -> None:
    run_id = airflow.trigger("rebalance_window", {"max_steps": 3})
    state = airflow.wait("rebalance_window", run_id, RUN_DEADLINE_S, on_question=lambda question: True)
    assert state == "failed"
    assert "has asked for this plan and may not approve it too" in airflow.task_log(
        "rebalance_window", run_id, "record_approval"
    )
    plan = airflow.xcom("rebalance_window", run_id, "check_plan")
    assert PlanStore(lake).read_approval(plan["plan_id"]) is None
    assert sum(plan["step_counts"].values()) <= 3
    assert RunStore(lake).ids() == []


@pytest.mark.timeout(2 * RUN_DEADLINE_S)
def test_plan_for_its_own_sake_asks_nobody(airflow: LocalAirflow, lake: Lake) -> None:
    run_id = airflow.trigger("rebalance_window", {"plan_only": True, "relief_only": True})
    assert airflow.wait("rebalance_window", run_id, RUN_DEADLINE_S) == "success"
    assert airflow.task_states("rebalance_window", run_id)["approve"] == "skipped"
    plan = PlanStore(lake).load(airflow.xcom("rebalance_window", run_id, "check_plan")["plan_id"]).plan
    assert plan.settings["tolerance"] == 10.0
