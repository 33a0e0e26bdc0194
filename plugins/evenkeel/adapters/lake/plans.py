"""Plans in the lake; a plan is read only if its bytes hash to its id."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel.adapters.lake.references import Candidates, is_plain_name, resolve_reference
from evenkeel.adapters.lake.store import MOST_DOCUMENT_BYTES, Lake, from_arrow, from_json, to_arrow, to_parquet
from evenkeel.model.approval import Approval, Refusal, Revocation
from evenkeel.model.canonical import digest, sha256_hex, short_id
from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import show
from evenkeel.model.plan import PLAN_TABLES, BrokerBalance, Plan, Rejection, Step, digest_rows
from evenkeel.model.verdict import Verdict

REFUSAL_NAME = 16
log = logging.getLogger(__name__)


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
        """Store the tables, then commit them by plan.json; returns the plan's URI."""
        folder = f"plans/{plan.plan_id}"
        for name, rows in (("steps", steps), ("rejections", rejections), ("brokers", brokers)):
            self._lake.put_if_absent(f"{folder}/{name}.parquet", to_parquet(to_arrow(PLAN_TABLES[name], rows)))
        self._lake.put_if_absent(f"{folder}/plan.json", plan.encode())
        return self._lake.uri_of(folder)

    def ids(self) -> list[str]:
        """Ids of all committed plans."""
        return [name for name in self._lake.names("plans") if self._lake.exists(_document(name))]

    def resolve(self, reference: str, cluster: str | None = None) -> str:
        """The full id of a plan: its id, a unique prefix, or `latest`, the plan (of a cluster) that was stored last."""
        if is_plain_name(reference) and self._lake.exists(_document(reference)):
            return reference
        ids = self.ids()
        of_cluster = "" if cluster is None else f" of cluster {cluster!r}"
        return resolve_reference(
            reference,
            Candidates(
                "plan",
                f"in {self._lake.uri}",
                ids,
                lambda: self._find_latest(ids, cluster),
                (f"no plans{of_cluster} in {self._lake.uri}", "make one with `evenkeel plan`"),
            ),
        )

    def load(self, reference: str, cluster: str | None = None) -> StoredPlan:
        """A plan by its reference, proved to be the one that its id stands for; see `resolve`."""
        plan_id = self.resolve(reference, cluster)
        plan, uri = self.read_plan(plan_id), self._lake.uri_of(f"plans/{plan_id}")
        return StoredPlan(
            plan,
            plan_id,
            uri,
            self._rows(plan_id, "steps", plan.steps_sha256),
            self._rows(plan_id, "rejections", plan.rejections_sha256),
            self._rows(plan_id, "brokers", plan.brokers_sha256),
        )

    def read_plan(self, plan_id: str) -> Plan:
        """A plan without its tables, which alone need Parquet; refused if its bytes do not hash to its id."""
        data = self._lake.read(_document(plan_id), MOST_DOCUMENT_BYTES)
        if sha256_hex(data) != plan_id:
            raise InputError(f"the plan id {plan_id} does not match the bytes of its plan.json", "plan again")
        document = from_json(data, self._lake.uri_of(_document(plan_id)))
        return Plan.from_json(document, self._lake.uri_of(f"plans/{plan_id}"))

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
            raise InputError(f"{uri} approves another plan, {show(approval.plan_id)}", "plan again")
        return approval

    def write_revocation(self, revocation: Revocation) -> None:
        self._lake.put_json(_revocation(revocation.plan_id), revocation.to_json())

    def find_revocation(self, plan_id: str) -> str | None:
        """Who revoked a plan, in words; a revocation that cannot be read counts too. None where there is none."""
        path = _revocation(plan_id)
        if not self._lake.exists(path):
            return None
        try:
            return Revocation.from_json(self._lake.read_json(path), self._lake.uri_of(path)).describe()
        except InputError as error:
            return f"revoked by a record that cannot be read ({error.cause})"

    def write_refusal(self, refusal: Refusal) -> None:
        """Store a no, or that nobody answered; there may be several, since a question may be asked again."""
        document = refusal.to_json()
        self._lake.put_json(f"{_refusals(refusal.plan_id)}/{digest(document)[:REFUSAL_NAME]}.json", document)

    def read_refusals(self, plan_id: str) -> list[Refusal]:
        """Every no to a plan, in order of time; one that cannot be read is skipped with a warning."""
        found = []
        for name in self._lake.names(_refusals(plan_id)):
            path = f"{_refusals(plan_id)}/{name}"
            try:
                refusal = Refusal.from_json(self._lake.read_json(path), self._lake.uri_of(path))
            except InputError as error:
                log.warning("a refusal is skipped: %s", error)
                continue
            if refusal.plan_id == plan_id:
                found.append(refusal)
        return sorted(found, key=lambda refusal: refusal.answered_at)

    def newest_first(self, cluster: str) -> Iterator[str]:
        """Ids of a cluster's plans, the one that was stored last first; those that cannot be read are skipped."""
        return (plan_id for plan_id in self._newest_first(self.ids()) if self._is_readable(plan_id, cluster))

    def write_report(self, plan_id: str, html: str) -> None:
        """Store the report; the first one stays, since the configuration that it speaks of may change later."""
        path = f"plans/{plan_id}/report.html"
        if not self._lake.exists(path):
            self._lake.put_if_absent(path, html.encode())

    def write_metrics(self, plan_id: str, metrics: str) -> None:
        self._lake.put_if_absent(f"plans/{plan_id}/metrics.prom", metrics.encode())

    def _find_latest(self, ids: Sequence[str], cluster: str | None) -> str | None:
        return next((plan_id for plan_id in self._newest_first(ids) if self._is_readable(plan_id, cluster)), None)

    def _newest_first(self, ids: Sequence[str]) -> list[str]:
        # A plan carries no time of its own, since the planner reads no clock; the lake knows when it was stored.
        return sorted(ids, key=lambda plan_id: (self._lake.written_ns(_document(plan_id)), plan_id), reverse=True)

    def _is_readable(self, plan_id: str, cluster: str | None) -> bool:
        """Whether a plan can be read and is for a cluster; a broken one hides none of the others."""
        try:
            return cluster in (None, self.read_plan(plan_id).cluster)
        except InputError as error:
            log.warning("plan %s is skipped: %s", short_id(plan_id), error)
            return False

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


def _refusals(plan_id: str) -> str:
    return f"plans/{plan_id}/refusals"


def _revocation(plan_id: str) -> str:
    return f"plans/{plan_id}/revoked.json"


def _document(plan_id: str) -> str:
    return f"plans/{plan_id}/plan.json"
