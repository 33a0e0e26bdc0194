"""Revoke a plan: nobody applies it any more, and a writer that is applying it stops."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from evenkeel.adapters.fencing.journal import Writer
from evenkeel.adapters.fencing.revocation import fence_out
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.adapters.zookeeper.session import open_session
from evenkeel.model.approval import Person, Revocation
from evenkeel.model.canonical import short_id
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError, RunStoppedError
from evenkeel.model.timestamps import format_time


@dataclass(frozen=True, slots=True)
class RevokedPlan:
    """A plan that was taken back, since when, and the writer that was stopped, if one was at work."""

    plan_id: str
    description: str
    stopped: Writer | None


def revoke_plan(
    lake: Lake, plan: str, person: Person, reason: str, connection: ClusterConnection | None
) -> RevokedPlan:
    """Record that a plan is revoked, then stop its writer; without a connection, the writer finds the record itself.

    The first revocation stands. Revoking a plan again stops a writer that the first time could not be reached.
    """
    plans = PlanStore(lake)
    plan_id = plans.resolve(plan, None if connection is None else connection.cluster)
    found = plans.find_revocation(plan_id)
    if found is None:
        now = format_time(datetime.now(UTC))
        plans.write_revocation(Revocation(plan_id, person.name, person.account, person.host, now, reason))
        found = plans.find_revocation(plan_id) or ""
    if connection is None:
        return RevokedPlan(plan_id, found, None)
    try:
        with open_session(connection) as session:
            return RevokedPlan(plan_id, found, fence_out(session, connection, plan_id, found))
    except EvenkeelError as error:
        raise RunStoppedError(
            f"plan {short_id(plan_id)} is revoked, but whether a writer is applying it is not known ({error.cause})",
            "a writer stops before its next step once it reads the record; run the same command again to be sure",
        ) from error
