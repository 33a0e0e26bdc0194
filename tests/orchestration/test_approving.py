"""An approval is for exactly the plan that was shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.sdk.exceptions import TaskAwaitingInput

from evenkeel.model.errors import InputError, RefusedError
from evenkeel.orchestration import approving
from evenkeel.orchestration.approving import (
    SHOWN_PLAN_ID,
    PlanApprovalOperator,
    bind_answer,
    plan_form,
    read_approver,
    read_timeout,
)

PLAN, OTHER = "a" * 64, "b" * 64
ANSWERED_AT = datetime(2026, 3, 1, 2, 3, 4, tzinfo=UTC)
ANNA = {"id": "1", "name": "anna"}


def summary(plan_id: str = PLAN) -> dict[str, Any]:
    return {
        "plan_id": plan_id,
        "report_uri": f"file:///lake/plans/{plan_id}/report.html",
        "cluster": "east",
        "snapshot_id": "20260301T020000Z-0123456789ab",
        "strategy": "certified",
        "expires_at": "2026-03-01T06:00:00.000Z",
        "step_counts": {"transfers": 12, "splits": 1, "unloads": 0},
        "balance": {
            "before": {"cpu": {"max_over_mean": 1.61, "max": 0.64}},
            "after": {"cpu": {"max_over_mean": 1.04, "max": 0.42}},
        },
        "bounds": {"moves": 11, "max_over_mean": {"cpu": 1.012345}},
        "disruption": {"client_seconds": 320.5},
        "warnings": ["one report is old"],
    }


def answer(option: str = "Approve", plan_id: str | None = PLAN, user: dict[str, str] | None = ANNA) -> dict[str, Any]:
    form = {} if plan_id is None else {"plan_id": plan_id}
    return {
        "chosen_options": [option],
        "params_input": form,
        "responded_at": ANSWERED_AT,
        "responded_by_user": user,
    }


class Instance:
    """As much of a task instance as the operator needs."""

    id = "ti"

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, *, task_ids: str, key: str) -> Any:
        return self.pushed.get(key) if task_ids == "approve" else None


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the operator shows to a person."""
    question: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **fields: question.update(fields)
    )
    return question


def ask(instance: Instance, plan_id: str = PLAN, minutes: float = 5) -> TaskAwaitingInput:
    operator = PlanApprovalOperator(task_id="approve", plan=summary(plan_id), timeout_minutes=minutes)
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator.execute({"ti": instance, "task_instance": instance})
    return waiting.value


def resume(instance: Instance, event: dict[str, Any], plan_id: str = PLAN) -> dict[str, Any]:
    operator = PlanApprovalOperator(task_id="approve", plan=summary(plan_id))
    return operator.execute_complete({"ti": instance, "task": operator}, event)


def test_question_names_plan_steps_balance_bounds_and_report(shown: dict[str, Any]) -> None:
    ask(Instance())
    assert PLAN[:12] in shown["subject"]
    for text in (
        PLAN,
        "12 transfers",
        "1.61 | 1.04",
        "max_over_mean (cpu 1.012), moves 11",
        "report.html",
        "one report is old",
    ):
        assert text in shown["body"]
    assert shown["params"]["plan_id"]["value"] == PLAN
    assert shown["defaults"] == ["Reject"]


def test_question_waits_as_long_as_the_parameter_says(shown: dict[str, Any]) -> None:
    assert ask(Instance(), minutes=7).timeout == timedelta(minutes=7)


def test_yes_is_bound_to_the_plan_that_was_shown(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    bound = resume(instance, answer())
    assert bound["plan_id"] == shown["params"]["plan_id"]["value"] == PLAN
    assert read_approver(bound, PLAN) == ("anna", ANSWERED_AT.isoformat())


def test_yes_that_names_another_plan_is_refused(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    with pytest.raises(RefusedError, match=f"the answer names {OTHER}"):
        resume(instance, answer(plan_id=OTHER))


def test_yes_is_refused_when_the_run_was_planned_anew_meanwhile(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    with pytest.raises(RefusedError, match=f"the run stands for {OTHER}"):
        resume(instance, answer(plan_id=None), plan_id=OTHER)


def test_yes_to_a_question_that_was_never_shown_is_refused() -> None:
    with pytest.raises(RefusedError, match="showed plan None"):
        bind_answer(answer(plan_id=None), None, PLAN)


def test_answer_without_a_plan_is_for_the_plan_that_is_shown() -> None:
    assert bind_answer(answer(plan_id=None), PLAN, PLAN)["plan_id"] == PLAN


def test_no_skips_the_rest_and_is_no_approval(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    with pytest.raises(RefusedError, match="no person approved"):
        read_approver(resume(instance, answer("Reject")), PLAN)


def test_error_instead_of_an_answer_fails(shown: dict[str, Any]) -> None:
    instance = Instance()
    ask(instance)
    with pytest.raises(HITLTimeoutError):
        resume(instance, {"error": "too late", "error_type": "timeout"})


def bound(**changes: Any) -> dict[str, Any]:
    return bind_answer(answer(), PLAN, PLAN) | changes


def test_task_marked_as_successful_by_hand_is_no_approval() -> None:
    with pytest.raises(RefusedError, match="nobody answered"):
        read_approver(None, PLAN)


def test_answer_for_another_plan_is_not_recorded() -> None:
    with pytest.raises(RefusedError, match="the answer is for plan"):
        read_approver(bound(), OTHER)


def test_default_that_nobody_chose_is_no_approval() -> None:
    with pytest.raises(RefusedError, match="no person approved"):
        read_approver(bound(responded_by_user=None), PLAN)


@pytest.mark.parametrize("minutes", [0, -1, "soon", None, "nan"])
def test_impossible_waiting_time_is_refused(minutes: Any) -> None:
    with pytest.raises(InputError, match="approval_timeout_minutes"):
        read_timeout(minutes)


def test_form_admits_one_plan_only() -> None:
    form = plan_form(PLAN)
    with pytest.raises(Exception, match=OTHER):
        form["plan_id"] = OTHER


def test_names_of_the_keys_are_what_the_client_reads() -> None:
    assert (approving.PLAN_ID, SHOWN_PLAN_ID) == ("plan_id", "shown_plan_id")
