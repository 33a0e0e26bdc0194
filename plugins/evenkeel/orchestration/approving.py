"""A person's answer to exactly the plan that was shown, and its record beside the plan.

    check_plan ──plan id──▶ approve (shows the plan, waits) ──answer + plan id──▶ record_approval
                               └── no, or no answer ──▶ a refusal beside the plan, and the rest is skipped

Three plan ids must match: the one that was shown, the one that the answer names, and the one that the Dag run stands
for when the answer is read. The form carries the plan id, and Airflow's page sends it back with the answer, so a page
that was left open while the run was planned again cannot approve the new plan unseen. An answer by REST API may omit
the plan id; it then counts for the plan that the task shows at that moment.

Before the question and again after the answer every step is proved against the cluster as it is then.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param, ParamsDict, get_current_context, task  # type: ignore[attr-defined]
from airflow.sdk.exceptions import DownstreamTasksSkipped

from evenkeel.model.approval import Answer, Person
from evenkeel.model.errors import RefusedError
from evenkeel.orchestration import TaskOutput
from evenkeel.orchestration.connection import open_access
from evenkeel.orchestration.parameters import (
    BREAK_GLASS,
    DEFAULT_TIMEOUT_MINUTES,
    LONGEST_REASON,
    REASON,
    read_reason,
    read_timeout,
)
from evenkeel.orchestration.plan_summary import write_body, write_subject
from evenkeel.orchestration.retry import WRITER, WRITER_POLICY
from evenkeel.orchestration.timetable import now
from evenkeel.orchestration.windows import find_window

if TYPE_CHECKING:
    from airflow.sdk import Context

    from evenkeel.model.approval import Approval

PLAN_ID = "plan_id"
SHOWN_PLAN_ID = "shown_plan_id"
ASK_AGAIN_DELAY = timedelta(seconds=5)
RECORD_TIMEOUT = timedelta(minutes=10)


class PlanApprovalOperator(ApprovalOperator):
    """Asks a person whether one plan may be applied. No answer counts as a rejection, and is recorded as none.

    It records a no, but not an approval. A task that somebody marks as successful has no answer, and `record_approval`
    rejects it.
    """

    template_fields: Collection[str] = ("cluster", "plan", "request", *ApprovalOperator.template_fields)

    def __init__(self, *, cluster: str | None, plan: Any, request: Any, **kwargs: Any) -> None:
        super().__init__(
            subject="Apply the plan?",
            defaults=self.REJECT,
            ignore_downstream_trigger_rules=True,
            response_timeout=timedelta(minutes=DEFAULT_TIMEOUT_MINUTES),
            # If Airflow loses the request or the answer, ask once more. A rejection is final.
            retries=1,
            retry_delay=ASK_AGAIN_DELAY,
            retry_policy=WRITER_POLICY,
            **kwargs,
        )
        self.cluster = cluster
        self.plan = plan
        self.request = request

    def execute(self, context: Context) -> Any:
        """Show the plan and wait. The id shown goes to XCom, because another process reads the answer."""
        from evenkeel.stages.holding import find_stale_steps

        plan_id, access = self.plan[PLAN_ID], open_access(self.cluster)
        holding = find_stale_steps(access.lake, plan_id, access.connection, access.settings)
        holding.require(access.settings)
        window = find_window(access, self.request)
        self.response_timeout = read_timeout(self.request["wishes"])
        zone = "UTC" if window is None else window.time_zone
        self.subject = write_subject(self.plan)
        self.body = write_body(self.plan, holding.sentences(), now() + self.response_timeout, zone)
        self.params = plan_form(plan_id)
        self.assigned_users = [{"id": name, "name": name} for name in access.approval_rules.people] or None
        context["ti"].xcom_push(SHOWN_PLAN_ID, plan_id)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Read the answer; an approval counts only for the plan that was shown, and a no is recorded."""
        # bind_response judges a form for another plan, because its message says what to do.
        shown = context["ti"].xcom_pull(task_ids=self.task_id, key=SHOWN_PLAN_ID)
        try:
            response = super().execute_complete(context, event)
        except DownstreamTasksSkipped:
            self._record_refusal(context, event, shown)
            raise
        return bind_response(response, shown, self.plan[PLAN_ID])

    def _record_refusal(self, context: Context, event: Mapping[str, Any], plan_id: str) -> None:
        from evenkeel.stages.refuse import refuse_plan

        user = event["responded_by_user"]
        person = Person("nobody", "Airflow", socket.gethostname()) if not user else identify(user)
        answer = Answer.REJECTED if user else Answer.TIMED_OUT
        reason = read_reason(REASON, event["params_input"] or {}) if user else ""
        refuse_plan(open_access(self.cluster).lake, plan_id, answer, person, describe_run(context["ti"]), reason)


def plan_form(plan_id: str) -> ParamsDict:
    """Return the form of the question: the plan id as its only choice, and room for a reason."""
    return ParamsDict(
        {
            PLAN_ID: Param(plan_id, type="string", enum=[plan_id], description="The plan that you approve or reject."),
            REASON: Param(
                "",
                type=["null", "string"],
                maxLength=LONGEST_REASON,
                title="Reason",
                description="Kept with your answer; with the next plan, it is shown why this one was rejected.",
            ),
        }
    )


def bind_response(response: Mapping[str, Any], shown: str | None, planned: str) -> dict[str, Any]:
    """Return an answer with the plan id it is for; reject an approval of another plan."""
    named = (response["params_input"] or {}).get(PLAN_ID, shown)
    if response["chosen_options"] == [ApprovalOperator.APPROVE] and not shown == planned == named:
        raise RefusedError(
            f"approve showed plan {shown}, the response names {named}, and this Dag run is for {planned}",
            "clear the task approve and respond to the plan that it then shows",
        )
    return {
        PLAN_ID: shown,
        "chosen_options": list(response["chosen_options"]),
        "responded_at": response["responded_at"].isoformat(),
        "responded_by_user": response["responded_by_user"],
        REASON: read_reason(REASON, response["params_input"] or {}),
    }


@task(execution_timeout=RECORD_TIMEOUT, **WRITER)
def record_approval(cluster: str | None, plan: TaskOutput, request: TaskOutput, response: TaskOutput) -> dict[str, Any]:
    """Record beside the plan who approved it, when and how, signed with this deployment's key.

    Nothing is applied without this record. It is refused for somebody who may not approve, and for a plan that no
    longer holds.
    """
    from evenkeel.stages.approve import approve_plan
    from evenkeel.stages.holding import find_stale_steps

    access, instance = open_access(cluster), get_current_context()["ti"]
    approver, responded_at = read_approver(response, plan[PLAN_ID])
    access.approval_rules.require_may_approve(approver.name, request["requested_by"])
    find_stale_steps(access.lake, plan[PLAN_ID], access.connection, access.settings).require(access.settings)
    how = f"{describe_run(instance)}, answered {responded_at}"
    if response[REASON]:
        how += f": {response[REASON]}"
    if request[BREAK_GLASS]:
        how += f"; outside every maintenance window: {request[BREAK_GLASS]}"
    approval: Approval = approve_plan(access.lake, plan[PLAN_ID], approver, how, access.approvals)
    return approval.to_json()


def describe_run(instance: Any) -> str:
    """How a question was asked, for the record of its answer."""
    return f"Airflow, Dag run {instance.dag_id} {instance.run_id}"


def identify(user: Mapping[str, Any]) -> Person:
    """A person by their Airflow account."""
    return Person(str(user["name"] or user["id"]), f"Airflow user {user['id']}", socket.gethostname())


def read_approver(response: Mapping[str, Any] | None, plan_id: str) -> tuple[Person, str]:
    """Return who approved this plan, by their Airflow account, and when; rejected unless a person did."""
    if response is None:
        raise RefusedError(f"nobody responded for plan {plan_id}", "clear the task approve and respond to it")
    if response[PLAN_ID] != plan_id:
        raise RefusedError(f"the response is for plan {response[PLAN_ID]}, not {plan_id}", "clear the task approve")
    user = response["responded_by_user"]
    if response["chosen_options"] != [ApprovalOperator.APPROVE] or not user:
        raise RefusedError(f"no person approved plan {plan_id}", "clear the task approve and respond to it")
    return identify(user), str(response["responded_at"])
