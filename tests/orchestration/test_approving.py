"""An approval is for exactly the plan that was shown."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.sdk.exceptions import TaskAwaitingInput

from evenkeel.adapters.lake.plans import StoredPlan
from evenkeel.adapters.lake.store import Lake
from evenkeel.configuration import ClusterConfiguration
from evenkeel.model.approval import ApprovalMode, ApprovalRules
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError
from evenkeel.model.settings import Settings
from evenkeel.orchestration import approving
from evenkeel.orchestration.approving import (
    SHOWN_PLAN_ID,
    PlanApprovalOperator,
    bind_response,
    plan_form,
    read_approver,
)
from evenkeel.orchestration.connection import ClusterAccess
from evenkeel.orchestration.plan_summary import summarise_plan
from evenkeel.stages import holding
from evenkeel.stages.holding import Holding
from support import small_plan

PLAN, OTHER = "a" * 64, "b" * 64
ANSWERED_AT = datetime(2026, 3, 1, 2, 3, 4, tzinfo=UTC)
ANNA = {"id": "1", "name": "anna"}


def summary(plan_id: str = PLAN) -> dict[str, Any]:
    """A plan as the task before the approval hands it on."""
    plan = small_plan.stored()
    stored = StoredPlan(plan.plan, plan_id, f"file:///lake/plans/{plan_id}", plan.steps, [], plan.brokers)
    return summarise_plan(stored, ["one report is old"]) | {"plan_id": plan_id}


def answer(option: str = "Approve", plan_id: str | None = PLAN, user: dict[str, str] | None = ANNA) -> dict[str, Any]:
    form = {} if plan_id is None else {"plan_id": plan_id}
    return {
        "chosen_options": [option],
        "params_input": form,
        "responded_at": ANSWERED_AT,
        "responded_by_user": user,
    }


class Instance:
    """The part of a task instance that the operator needs."""

    id = "ti"

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, *, task_ids: str, key: str) -> Any:
        return self.pushed.get(key) if task_ids == "approve" else None


@pytest.fixture(autouse=True)
def access(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ClusterAccess:
    """A cluster in whose lake the plan is, and of which one step in three no longer holds."""
    found = ClusterAccess(
        Lake(str(tmp_path)),
        ClusterConnection("east", "localhost:2181"),
        Settings(max_stale_steps_share=0.4),
        ApprovalRules(unsigned=True),
        ClusterConfiguration("east"),
    )
    monkeypatch.setattr(approving, "open_access", lambda cluster: found)
    stale = Holding(PLAN, 3, 1, "t/n/0x00000000_0x40000000: it has another owner")
    monkeypatch.setattr(holding, "find_stale_steps", lambda *given: stale)
    return found


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The request that the operator shows to a person."""
    question: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **fields: question.update(fields)
    )
    return question


def request(minutes: float = 5) -> dict[str, Any]:
    """What the first task of the run has decided."""
    wishes = {"approval_timeout_minutes": minutes}
    return {"wishes": wishes, "window_start": None, "break_glass": "", "requested_by": "anna"}


def ask(instance: Instance, plan_id: str = PLAN, minutes: float = 5) -> TaskAwaitingInput:
    operator = PlanApprovalOperator(task_id="approve", cluster="east", plan=summary(plan_id), request=request(minutes))
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator.execute({"ti": instance, "task_instance": instance})
    return waiting.value


def resume(instance: Instance, event: dict[str, Any], plan_id: str = PLAN) -> dict[str, Any]:
    operator = PlanApprovalOperator(task_id="approve", cluster="east", plan=summary(plan_id), request=request())
    return operator.execute_complete({"ti": instance, "task": operator}, event)


def test_approval_shows_plan_steps_balance_bounds_and_report(shown: dict[str, Any]) -> None:
    ask(Instance())
    assert PLAN[:12] in shown["subject"]
    for text in (
        PLAN,
        "1 step in 1 wave",
        "- 1 move: the provable minimum.",
        "the busiest broker, goes from 48.0 % to 32.0 % of its bandwidth in limit",
        "- Disruption: 7.0 client-seconds; 10 sessions reconnect, 40.0 MB/s of traffic moves.",
        "| bandwidth in, share of the limit |",
        "| 48.0% | 32.0% | b01.fleet:8080 | 32.0% | 2.000 | 1.333 |",
        "- **Warning:** 1 of 3 steps no longer applies (t/n/0x00000000",
        "| broker | bundles that leave | that arrive | its busiest resource | before | after |",
        "counts as a rejection.",
        f"/plans/{PLAN}/balance.svg)",
        f"&view=plan&plan={PLAN})",
        "certified",
        "report.html",
        "one report is old",
    ):
        assert text in shown["body"]
    assert shown["params"]["plan_id"]["value"] == PLAN
    assert shown["defaults"] == ["Reject"]


def test_approval_waits_as_long_as_the_parameter_says(shown: dict[str, Any]) -> None:
    assert ask(Instance(), minutes=7).timeout == timedelta(minutes=7)


def test_approval_is_bound_to_the_plan_shown(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    bound = resume(instance, answer())
    assert bound["plan_id"] == shown["params"]["plan_id"]["value"] == PLAN
    person, answered_at = read_approver(bound, PLAN)
    assert (person.name, person.account, person.host) == ("anna", "Airflow user 1", socket.gethostname())
    assert answered_at == ANSWERED_AT.isoformat()


def test_approval_that_names_another_plan_is_refused(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    with pytest.raises(RefusedError, match=f"the response names {OTHER}"):
        resume(instance, answer(plan_id=OTHER))


def test_approval_is_refused_if_the_run_was_planned_again_meanwhile(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    with pytest.raises(RefusedError, match=f"this Dag run is for {OTHER}"):
        resume(instance, answer(plan_id=None), plan_id=OTHER)


def test_approval_of_a_plan_that_was_never_shown_is_refused() -> None:
    with pytest.raises(RefusedError, match="showed plan None"):
        bind_response(answer(plan_id=None), None, PLAN)


def test_response_without_a_plan_id_is_for_the_plan_shown() -> None:
    assert bind_response(answer(plan_id=None), PLAN, PLAN)["plan_id"] == PLAN


def test_rejection_is_no_approval(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    with pytest.raises(RefusedError, match="no person approved"):
        read_approver(resume(instance, answer("Reject")), PLAN)


def test_error_instead_of_a_response_fails(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    with pytest.raises(HITLTimeoutError):
        resume(instance, {"error": "too late", "error_type": "timeout"})


def bound(**changes: Any) -> dict[str, Any]:
    return bind_response(answer(), PLAN, PLAN) | changes


def test_task_marked_as_successful_is_no_approval() -> None:
    with pytest.raises(RefusedError, match="nobody responded"):
        read_approver(None, PLAN)


def test_response_for_another_plan_is_not_recorded() -> None:
    with pytest.raises(RefusedError, match="the response is for plan"):
        read_approver(bound(), OTHER)


def test_default_option_without_a_user_is_no_approval() -> None:
    with pytest.raises(RefusedError, match="no person approved"):
        read_approver(bound(responded_by_user=None), PLAN)


def test_plan_that_no_longer_holds_is_not_offered(shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Holding(PLAN, 3, 2, "t/n/0x00000000_0x40000000: it has another owner")
    monkeypatch.setattr(holding, "find_stale_steps", lambda *given: gone)
    operator = PlanApprovalOperator(task_id="approve", cluster="east", plan=summary(), request=request())
    with pytest.raises(RefusedError, match="2 of 3 steps of plan a{12} no longer apply, more than the 40 % that"):
        operator.execute({"ti": Instance(), "task_instance": Instance()})
    assert shown == {}


@pytest.mark.parametrize(
    ("rules", "user", "sentence"),
    [
        (ApprovalRules(), "anna", None),
        (ApprovalRules(mode=ApprovalMode.FOUR_EYES), "bert", None),
        (ApprovalRules(mode=ApprovalMode.FOUR_EYES), "anna", "anna has asked for this plan and may not approve it too"),
        (ApprovalRules(people=("bert", "cora")), "bert", None),
        (
            ApprovalRules(people=("bert", "cora")),
            "anna",
            "anna may not approve plans of this cluster, only bert",
        ),
    ],
)
def test_rules_say_who_may_approve(rules: ApprovalRules, user: str, sentence: str | None) -> None:
    if sentence is None:
        rules.require_may_approve(user, "anna")
    else:
        with pytest.raises(RefusedError, match=sentence):
            rules.require_may_approve(user, "anna")


def test_four_eyes_leave_a_scheduled_run_to_anybody() -> None:
    ApprovalRules(mode=ApprovalMode.FOUR_EYES).require_may_approve("anna", None)


def test_form_accepts_one_plan_id_only() -> None:
    form = plan_form(PLAN)
    with pytest.raises(Exception, match=OTHER):
        form["plan_id"] = OTHER


def test_keys_are_those_that_the_client_reads() -> None:
    assert (approving.PLAN_ID, SHOWN_PLAN_ID) == ("plan_id", "shown_plan_id")
