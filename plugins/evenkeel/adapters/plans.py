"""Plans and requests in the lake; a plan is read only if its bytes hash to its id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.adapters.lake import Lake, from_arrow, to_arrow, to_parquet
from evenkeel.model.approval import Approval
from evenkeel.model.canonical import sha256_hex
from evenkeel.model.errors import InputError
from evenkeel.model.plan import PLAN_TABLES, BrokerBalance, Plan, Rejection, Step, digest_rows
from evenkeel.model.request import PlanRequest
from evenkeel.model.verdict import Verdict


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan with its tables, all proved to be the ones that the plan id stands for."""

    plan: Plan
    plan_id: str
    uri: str
    steps: Sequence[Step]
    rejections: Sequence[Rejection]
    brokers: Sequence[BrokerBalance]


class PlanStore:
    """Plans of one lake with what lies beside them: verdict, approval, report."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write(
        self, plan: Plan, steps: Sequence[Step], rejections: Sequence[Rejection], brokers: Sequence[BrokerBalance]
    ) -> str:
        """Store the tables, then commit them by plan.json; answers the plan's URI."""
        folder = f"plans/{plan.plan_id}"
        for name, rows in (("steps", steps), ("rejections", rejections), ("brokers", brokers)):
            self._lake.put_if_absent(f"{folder}/{name}.parquet", to_parquet(to_arrow(PLAN_TABLES[name], rows)))
        self._lake.put_if_absent(f"{folder}/plan.json", plan.encode())
        return self._lake.uri_of(folder)

    def resolve(self, wanted: str) -> str:
        """The full id of a plan named by its id or by a beginning of it that only one plan has."""
        matches = [name for name in self._lake.names("plans") if name.startswith(wanted)] if wanted else []
        if len(matches) != 1:
            found = "no plan" if not matches else f"{len(matches)} plans"
            raise InputError(f"{found} in {self._lake.uri} begin with {wanted!r}", "give the whole plan id")
        return matches[0]

    def load(self, wanted: str) -> StoredPlan:
        plan_id = self.resolve(wanted)
        folder = f"plans/{plan_id}"
        data = self._lake.read(f"{folder}/plan.json")
        if sha256_hex(data) != plan_id:
            raise InputError(f"the plan id {plan_id} does not match the bytes of its plan.json", "plan again")
        uri = self._lake.uri_of(folder)
        plan = Plan.from_json(self._lake.read_json(f"{folder}/plan.json"), uri)
        return StoredPlan(
            plan,
            plan_id,
            uri,
            self._rows(plan_id, "steps", plan.steps_sha256),
            self._rows(plan_id, "rejections", plan.rejections_sha256),
            self._rows(plan_id, "brokers", plan.brokers_sha256),
        )

    def write_verdict(self, plan_id: str, verdict: Verdict) -> None:
        self._lake.put_json(f"plans/{plan_id}/gate.json", verdict.to_json())

    def read_verdict(self, plan_id: str) -> Verdict | None:
        fields, uri = self._beside(plan_id, "gate.json")
        return None if fields is None else Verdict.from_json(fields, uri)

    def write_approval(self, approval: Approval) -> None:
        self._lake.put_json(f"plans/{approval.plan_id}/approval.json", approval.to_json())

    def read_approval(self, plan_id: str) -> Approval | None:
        fields, uri = self._beside(plan_id, "approval.json")
        if fields is None:
            return None
        approval = Approval.from_json(fields, uri)
        if approval.plan_id != plan_id:
            raise InputError(f"{uri} approves another plan", "approve this plan with `evenkeel approve`")
        return approval

    def write_report(self, plan_id: str, html: str) -> str:
        path = f"plans/{plan_id}/report.html"
        self._lake.put_if_absent(path, html.encode())
        return self._lake.uri_of(path)

    def _beside(self, plan_id: str, name: str) -> tuple[Any, str]:
        path = f"plans/{plan_id}/{name}"
        fields = self._lake.read_json(path) if self._lake.exists(path) else None
        return fields, self._lake.uri_of(path)

    def _rows(self, plan_id: str, name: str, expected_digest: str) -> list[Any]:
        path = f"plans/{plan_id}/{name}.parquet"
        rows = from_arrow(PLAN_TABLES[name], self._lake.read_table(path), self._lake.uri_of(path))
        if digest_rows(rows) != expected_digest:
            raise InputError(f"{self._lake.uri_of(path)} is not the table that plan {plan_id} names", "plan again")
        return rows


class RequestStore:
    """Requests to plan, and the answers of the jobs that serve them."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write(self, request: PlanRequest) -> None:
        self._lake.put_json(f"requests/{request.request_id}/request.json", request.to_json())

    def load(self, request_id: str) -> PlanRequest:
        path = f"requests/{request_id}/request.json"
        return PlanRequest.from_json(self._lake.read_json(path), self._lake.uri_of(path))

    def answer(self, request_id: str, job: str, value: dict[str, Any]) -> None:
        self._lake.put_json(f"requests/{request_id}/{job}.json", value)

    def read_answer(self, request_id: str, job: str) -> dict[str, Any] | None:
        path = f"requests/{request_id}/{job}.json"
        if not self._lake.exists(path):
            return None
        fields = self._lake.read_json(path)
        if not isinstance(fields, dict):
            raise InputError(f"{self._lake.uri_of(path)} is not an answer", "make a new request")
        return fields
