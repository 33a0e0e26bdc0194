"""A person's yes to exactly the plan that was shown, and its record beside the plan.

    check_plan ──plan id──▶ approve (shows it, waits) ──answer + plan id──▶ record_approval

Three ids must be one: the plan that the question showed, the plan that the answer names, and the plan that the run
stands for when the answer is read. The question's form carries the plan id, and Airflow's page sends it back with the
answer, so a page that was left open while the run was planned anew cannot approve the new plan unseen. An answer by the
REST API may leave it out; it then speaks of the plan that the task shows at that moment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param, ParamsDict, get_current_context, task  # type: ignore[attr-defined]

from evenkeel.model.errors import InputError, RefusedError
from evenkeel.orchestration.connection import EvenkeelHook
from evenkeel.orchestration.plan_summary import write_body, write_subject
from evenkeel.orchestration.retry import WRITER, WRITER_POLICY

if TYPE_CHECKING:
    from airflow.sdk import Context

    from evenkeel.model.approval import Approval

PLAN_ID = "plan_id"
SHOWN_PLAN_ID = "shown_plan_id"
DEFAULT_TIMEOUT_MINUTES = 60
ASK_AGAIN_DELAY = timedelta(seconds=5)
RECORD_TIMEOUT = timedelta(minutes=5)


class PlanApprovalOperator(ApprovalOperator):
    """Asks a person whether one plan may be applied; silence is a no.

    It does not record the approval and does not touch the lake. A task that is marked as successful by hand has no
    answer, and `record_approval` refuses it.
    """

    template_fields: Collection[str] = ("plan", "timeout_minutes", *ApprovalOperator.template_fields)

    def __init__(self, *, plan: Any, timeout_minutes: Any = DEFAULT_TIMEOUT_MINUTES, **kwargs: Any) -> None:
        super().__init__(
            subject="Apply the plan?",
            defaults=self.REJECT,
            ignore_downstream_trigger_rules=True,
            response_timeout=timedelta(minutes=DEFAULT_TIMEOUT_MINUTES),
            # Where Airflow itself loses a question or its answer, it is asked once more; a refusal is final.
            retries=1,
            retry_delay=ASK_AGAIN_DELAY,
            retry_policy=WRITER_POLICY,
            **kwargs,
        )
        self.plan = plan
        self.timeout_minutes = timeout_minutes

    def execute(self, context: Context) -> Any:
        """Show the plan and wait; what was shown is kept, for the answer comes to a new process."""
        plan_id = self.plan[PLAN_ID]
        self.subject, self.body = write_subject(self.plan), write_body(self.plan)
        self.response_timeout = read_timeout(self.timeout_minutes)
        self.params = plan_form(plan_id)
        context["ti"].xcom_push(SHOWN_PLAN_ID, plan_id)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Read the answer; a yes counts only for the plan that was shown."""
        # A form that was filled in for another plan is judged by bind_answer, whose sentence says what to do.
        answer = super().execute_complete(context, event)
        shown = context["ti"].xcom_pull(task_ids=self.task_id, key=SHOWN_PLAN_ID)
        return bind_answer(answer, shown, self.plan[PLAN_ID])


def plan_form(plan_id: str) -> ParamsDict:
    """The question's form: one field, whose only value is the plan id."""
    return ParamsDict({PLAN_ID: Param(plan_id, type="string", enum=[plan_id], description="the plan that you judge")})


def read_timeout(minutes: Any) -> timedelta:
    """How long to wait for an answer."""
    try:
        timeout = timedelta(minutes=float(minutes))
    except (TypeError, ValueError) as error:
        raise InputError(f"approval_timeout_minutes = {minutes!r} is not a number", "give minutes") from error
    if not timeout > timedelta(0):
        raise InputError(f"approval_timeout_minutes = {minutes} is not above zero", "give minutes")
    return timeout


def bind_answer(answer: Mapping[str, Any], shown: str | None, planned: str) -> dict[str, Any]:
    """An answer together with the plan that it is about; refused if it is about another plan."""
    named = (answer["params_input"] or {}).get(PLAN_ID, shown)
    if answer["chosen_options"] == [ApprovalOperator.APPROVE] and not shown == planned == named:
        raise RefusedError(
            f"the question showed plan {shown}, the answer names {named}, the run stands for {planned}",
            "clear the task approve, so that it asks again, and answer for the plan that it shows",
        )
    return {
        PLAN_ID: shown,
        "chosen_options": list(answer["chosen_options"]),
        "responded_at": answer["responded_at"].isoformat(),
        "responded_by_user": answer["responded_by_user"],
    }


@task(execution_timeout=RECORD_TIMEOUT, **WRITER)
def record_approval(plan: dict[str, Any], answer: dict[str, Any] | None) -> dict[str, Any]:
    """Put down beside the plan who approved it, when and how; without it nothing is applied."""
    from evenkeel.stages.approve import approve_plan

    instance = get_current_context()["ti"]
    approver, answered_at = read_approver(answer, plan[PLAN_ID])
    how = f"Airflow, Dag run {instance.dag_id} {instance.run_id}, answered {answered_at}"
    approval: Approval = approve_plan(EvenkeelHook().get_conn().lake, plan[PLAN_ID], approver, how)
    return approval.to_json()


def read_approver(answer: Mapping[str, Any] | None, plan_id: str) -> tuple[str, str]:
    """Who said yes to this plan, and when; refused unless a person did."""
    if answer is None:
        raise RefusedError(f"nobody answered for plan {plan_id}", "clear the task approve and answer it")
    if answer[PLAN_ID] != plan_id:
        raise RefusedError(f"the answer is for plan {answer[PLAN_ID]}, not for {plan_id}", "clear the task approve")
    user = answer["responded_by_user"]
    if answer["chosen_options"] != [ApprovalOperator.APPROVE] or not user:
        raise RefusedError(f"no person approved plan {plan_id}", "clear the task approve and answer it")
    return str(user["name"] or user["id"]), str(answer["responded_at"])
