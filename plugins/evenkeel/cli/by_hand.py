"""`evenkeel move`, `unload`, `split` and `rollback`: plans for what a person asks for.

fresh snapshot ──▶ plan ──▶ gate ──▶ approval ──▶ apply ──▶ verify
"""

from __future__ import annotations

from typing import Annotated

import typer

from evenkeel.cli.interactive_run import InteractiveRun
from evenkeel.cli.options import InteractiveOptions, RunReference, command, current_user
from evenkeel.cli.output import fail, working
from evenkeel.model.plan import StepKind

BundleOrTopic = Annotated[
    str,
    typer.Argument(metavar="BUNDLE|TOPIC", help="Bundle (tenant/namespace/range), or a topic to name its bundle."),
]


@command
def move(
    target: BundleOrTopic,
    to: Annotated[str, typer.Option("--to", metavar="BROKER", help="The broker to move it to, host:port.")],
    where: InteractiveOptions,
) -> None:
    """Move one bundle to a broker of your choice.

    The move goes through the same gate, approval and checks as any plan.
    """
    _plan_and_apply(where, StepKind.TRANSFER, target, destination=to)


@command
def unload(bundle: BundleOrTopic, where: InteractiveOptions) -> None:
    """Unload one bundle; Pulsar chooses the next owner."""
    _plan_and_apply(where, StepKind.UNLOAD, bundle)


@command
def split(
    bundle: BundleOrTopic,
    where: InteractiveOptions,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="HASH", help="Hash to split at, such as 0x20000000; default: where it halves the load."
        ),
    ] = None,
) -> None:
    """Split one bundle in two; a split cannot be undone.

    Both halves stay on the same broker.
    """
    _plan_and_apply(where, StepKind.SPLIT, bundle, boundary=at)


@command
def rollback(run: RunReference, where: InteractiveOptions) -> None:
    """Undo a run: move back the bundles that are still where it put them.

    The journal in ZooKeeper says what was done. Splits and unloads cannot be undone.
    """
    from evenkeel.adapters.lake.plans import PlanStore
    from evenkeel.stages.rollback import find_plan_of, plan_rollback

    lake, reference = where.locate("runs", run)
    # A run that was interrupted has no record, so its cluster is that of its plan.
    made_for = PlanStore(lake).read_plan(find_plan_of(lake, reference, where.known_cluster)).cluster
    interactive = InteractiveRun.from_options(where, lake, where.cluster or made_for)
    with working("reading the journal and the cluster"):
        stored = plan_rollback(lake, reference, interactive.connection, interactive.settings)
    interactive.show_left(stored.rejections)
    if not stored.steps:
        fail(
            where.as_json,
            interactive.document(stored),
            "no bundle can be moved back: see the reasons above, or in `left`",
        )
    interactive.carry_out(stored)


def _plan_and_apply(
    where: InteractiveOptions, kind: StepKind, target: str, destination: str | None = None, boundary: str | None = None
) -> None:
    from evenkeel.planning.manual.requests import ManualRequest
    from evenkeel.stages.manual import plan_by_hand

    request = ManualRequest(kind, target, current_user(), destination, boundary)
    request.require_names()
    interactive = InteractiveRun.from_options(where, where.lake_to_write, where.cluster_name)
    with working("reading the cluster"):
        stored = plan_by_hand(interactive.lake, interactive.connection, interactive.settings, request)
    interactive.carry_out(stored)
