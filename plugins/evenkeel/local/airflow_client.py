"""A client of Airflow's REST API: trigger a Dag, watch it, answer its approval requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx

from evenkeel.model.errors import RefusedError, UnavailableError
from evenkeel.model.timestamps import parse_time

REQUEST_TIMEOUT_S = 60.0
# On a busy machine Airflow's single API process can be silent for longer. Asking again changes nothing there.
READ_ATTEMPTS = 4
POLL_S = 1.0
FINAL_STATES = frozenset({"success", "failed"})
AWAITING_INPUT = "awaiting_input"
APPROVE, REJECT = "Approve", "Reject"
RETURN_VALUE = "return_value"
# Airflow 3.3 fails an approval task that is answered before the scheduler has processed the executor's report on the
# task's first half: the scheduler finds the task queued again where it expects it to be waiting. No person is that
# fast, but a program is. The scheduler has processed the report once its heartbeat shows another loop since then.
QUESTION_SETTLES_AFTER = timedelta(seconds=5)
SCHEDULER_GOES_ROUND_WITHIN = timedelta(seconds=3)

TaskStates = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """An approval request that is waiting for a person."""

    task_id: str
    subject: str
    body: str
    form: Mapping[str, Any]

    @property
    def plan_id(self) -> str | None:
        """The plan that the request shows."""
        return self.form.get("plan_id")


class AirflowClient:
    """A user's session with an Airflow, however that was started."""

    def __init__(self, base_url: str, user: str, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self.url = base_url
        self.user = user
        self._http = httpx.Client(base_url=base_url, timeout=timeout_s, trust_env=False)
        self._asking_since: dict[str, datetime] = {}

    def log_in(self, password: str) -> None:
        """Get a token for all later calls; the password is not stored."""
        answer = self._call("POST", "/auth/token", {"username": self.user, "password": password})
        self._http.headers["Authorization"] = f"Bearer {answer['access_token']}"

    def close(self) -> None:
        self._http.close()

    def health(self) -> dict[str, str | None]:
        """The state of each part of Airflow: healthy, unhealthy, or null if it has never reported."""
        return {part: report["status"] for part, report in self._call("GET", "/api/v2/monitor/health").items()}

    def dag_ids(self) -> set[str]:
        """The Dags that were parsed."""
        return {dag["dag_id"] for dag in self._call("GET", "/api/v2/dags")["dags"]}

    def import_errors(self) -> dict[str, str]:
        """Dag files that could not be parsed, each with its traceback."""
        errors = self._call("GET", "/api/v2/importErrors")["import_errors"]
        return {error["filename"]: error["stack_trace"] for error in errors}

    def pause(self, dag_id: str) -> None:
        """Start no new run of a Dag, neither by schedule nor by hand."""
        self._call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": True})

    def unpause(self, dag_id: str) -> None:
        """Let a Dag run; one with a schedule and no run yet starts at once."""
        self._call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Request a run and return its id; while the Dag is paused, the run waits."""
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run_ids(self, dag_id: str) -> list[str]:
        """The runs of a Dag, oldest first."""
        runs = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns?order_by=run_after")["dag_runs"]
        return [run["dag_run_id"] for run in runs]

    def wait_for_first_run(self, dag_id: str, deadline_s: float) -> str:
        """Wait for the first scheduled run of a Dag, which Airflow starts as soon as the Dag is unpaused."""
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            for run_id in self.run_ids(dag_id):
                return run_id
            time.sleep(POLL_S)
        raise UnavailableError(f"Dag {dag_id} has not run within {deadline_s:g} s", f"look at {self.url}")

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self._call("GET", _run(dag_id, run_id))["state"])

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """The state of each task of a run; null before Airflow has looked at it."""
        instances = self._call("GET", f"{_run(dag_id, run_id)}/taskInstances")["task_instances"]
        return {instance["task_id"]: instance["state"] for instance in instances}

    def wait(
        self,
        dag_id: str,
        run_id: str,
        deadline_s: float,
        on_state: Callable[[TaskStates], None] = lambda states: None,
        on_question: Callable[[PendingApproval], bool | None] = lambda question: None,
    ) -> str:
        """Wait until a run has finished and return its final state.

        `on_state` is called with every change of the task states. `on_question` is called with each open approval
        request and returns True, False, or None to leave it open; it is called again if Airflow asks again.
        """
        known: TaskStates = {}
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            state, states = self.run_state(dag_id, run_id), self.task_states(dag_id, run_id)
            if states != known:
                on_state(states)
                known = states
            if state in FINAL_STATES:
                return state
            if AWAITING_INPUT in states.values():
                self._answer(dag_id, run_id, on_question)
            time.sleep(POLL_S)
        raise UnavailableError(
            f"run {run_id} of {dag_id} has not ended within {deadline_s:g} s ({dict(known)})", f"look at {self.url}"
        )

    def pending_approvals(self, dag_id: str, run_id: str) -> list[PendingApproval]:
        """The open approval requests of a run, each as soon as it can be answered safely."""
        details = self._call("GET", f"{_run(dag_id, run_id)}/hitlDetails?response_received=false")["hitl_details"]
        asking = [detail for detail in details if detail["task_instance"]["state"] == AWAITING_INPUT]
        now = datetime.now(UTC)
        # A task that Airflow retries asks again.
        tries = {
            detail["task_instance"]["id"] + str(detail["task_instance"]["try_number"]): detail for detail in asking
        }
        self._asking_since = {key: self._asking_since.get(key, now) for key in tries}
        return [
            PendingApproval(
                detail["task_instance"]["task_id"],
                detail["subject"],
                detail["body"] or "",
                {name: field["value"] for name, field in detail["params"].items()},
            )
            for key, detail in tries.items()
            if self._has_settled(self._asking_since[key], now)
        ]

    def _has_settled(self, asking_since: datetime, now: datetime) -> bool:
        """Whether Airflow has processed the first half of a task that has been asking since a moment."""
        if now < asking_since + QUESTION_SETTLES_AFTER:
            return False
        heartbeat = self._call("GET", "/api/v2/monitor/health")["scheduler"]["latest_scheduler_heartbeat"]
        return heartbeat is not None and parse_time(heartbeat) >= asking_since + SCHEDULER_GOES_ROUND_WITHIN

    def respond(
        self, dag_id: str, run_id: str, task_id: str, approve: bool, form: Mapping[str, Any] | None = None
    ) -> None:
        """Answer an approval request as this user; the form names the plan that the answer is about."""
        answer = {"chosen_options": [APPROVE if approve else REJECT], "params_input": dict(form or {})}
        self._call("PATCH", f"{_task(dag_id, run_id, task_id)}/-1/hitlDetails", answer)

    def _answer(self, dag_id: str, run_id: str, on_question: Callable[[PendingApproval], bool | None]) -> None:
        for question in self.pending_approvals(dag_id, run_id):
            approve = on_question(question)
            if approve is not None:
                self.respond(dag_id, run_id, question.task_id, approve, question.form)

    def task_log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """The log of a task's last try, as plain lines."""
        tries = self._call("GET", _task(dag_id, run_id, task_id))["try_number"]
        content = self._call("GET", f"{_task(dag_id, run_id, task_id)}/logs/{tries}?full_content=true")["content"]
        return "\n".join(_log_line(entry) for entry in content)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = RETURN_VALUE) -> Any:
        """A value that a task returned or pushed."""
        return self._call("GET", f"{_task(dag_id, run_id, task_id)}/xcomEntries/{quote(key, safe='')}")["value"]

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        """Make one call. Only a read that timed out is repeated: nothing else may safely be done twice."""
        attempts = READ_ATTEMPTS if method == "GET" else 1
        for attempt in range(1, attempts + 1):
            try:
                response = self._http.request(method, path, json=body)
                break
            except httpx.HTTPError as error:
                if isinstance(error, httpx.TimeoutException) and attempt < attempts:
                    continue
                raise UnavailableError(
                    f"Airflow at {self.url} did not respond to {method} {path} ({error})", "read its logs"
                ) from error
        if response.is_error:
            raise RefusedError(
                f"Airflow refused {method} {path} with {response.status_code} ({response.text})", f"look at {self.url}"
            )
        return response.json()


def _run(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"


def _task(dag_id: str, run_id: str, task_id: str) -> str:
    return f"{_run(dag_id, run_id)}/taskInstances/{task_id}"


def _log_line(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return str(entry)
    details = entry.get("error_detail") or []
    causes = [f"{detail['exc_type']}: {detail['exc_value']}" for detail in details]
    return " ".join([str(entry.get("timestamp") or ""), str(entry.get("event") or ""), *causes]).strip()
