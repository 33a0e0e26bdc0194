"""`evenkeel revoke`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from evenkeel.cli.options import ConnectionOptions, LakeOptions, PlanReference, command, current_person
from evenkeel.cli.output import escape, out, print_json, working


@dataclass(frozen=True, kw_only=True)
class RevokeOptions(ConnectionOptions, LakeOptions):
    """For `revoke`, which writes to the lake, and to ZooKeeper where it is known."""


@command
def revoke(
    plan: PlanReference,
    where: RevokeOptions,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; stored with the revocation.")] = "",
) -> None:
    """Revoke a plan, approved or not; a run of it stops before its next step.

    If the cluster's ZooKeeper is known, a writer that is applying the plan is stopped at once. A revocation is final.
    """
    from evenkeel.stages.revoke import revoke_plan

    lake, reference = where.locate("plans", plan)
    cluster = where.known_cluster
    knows_zookeeper = cluster is not None and (where.zookeeper or where.section_of(cluster).zookeeper) is not None
    connection = where.connection if knows_zookeeper else None
    with working("revoking the plan"):
        revoked = revoke_plan(lake, reference, current_person(), reason, connection)
    if where.as_json:
        print_json(asdict(revoked))
        return
    out.print(f"plan [bold]{revoked.plan_id}[/] is {escape(revoked.description)}")
    if revoked.stopped is not None:
        out.print(f"its writer {escape(revoked.stopped.holder)} was stopped at epoch {revoked.stopped.epoch}")
    elif connection is not None:
        out.print("no writer was applying it")
    else:
        out.print("ZooKeeper was not asked: a writer that is applying it stops before its next step")
