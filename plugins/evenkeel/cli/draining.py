"""`evenkeel drain`: empty brokers for maintenance, and put them back into service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from evenkeel.cli.interactive_run import InteractiveRun
from evenkeel.cli.options import (
    DEFAULT_JOB_DEADLINE_S,
    DEFAULT_LOGS,
    InteractiveOptions,
    JobDeadline,
    Logs,
    command,
    current_user,
)
from evenkeel.cli.output import escape, fail, out, print_json, print_next, working
from evenkeel.model.names import require_broker_id

MOST_NAMED = 5


@command
def drain(
    broker: Annotated[
        list[str], typer.Option("--broker", metavar="ID", help="Id of a broker to empty, host:port; can be repeated.")
    ],
    where: InteractiveOptions,
    undo: Annotated[bool, typer.Option("--undo", help="Remove the mark: the broker may own bundles again.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; stored with the mark.")] = "",
    job_deadline: JobDeadline = DEFAULT_JOB_DEADLINE_S,
    logs: Logs = DEFAULT_LOGS,
) -> None:
    """Empty brokers for maintenance.

    Marks the brokers, makes a plan that empties them, checks it, asks for approval, applies it, and verifies that
    the brokers own no bundles. The mark keeps Evenkeel from moving bundles there until `evenkeel drain --undo`.
    """
    from evenkeel.stages.drain import mark_brokers, plan_drain

    brokers = sorted({require_broker_id(name) for name in broker})
    if undo:
        _undo(where, brokers)
        return
    run = InteractiveRun.from_options(where, where.lake_to_write, where.cluster_name)
    with working("marking the brokers") as say:
        mark_brokers(run.connection, brokers, current_user(), reason)
        say("reading the cluster")
        stored = plan_drain(run.lake, run.connection, run.settings, run.master, logs, job_deadline, say)
    run.note("brokers", brokers)
    if not where.as_json:
        out.print(f"{escape(', '.join(brokers))} marked for draining; `evenkeel drain --undo` removes the mark")
    if stored.steps:
        run.check(stored)
        run.get_approval(stored)
        record = run.apply(stored)
        run.show_left(stored.rejections)
        snapshot_id = run.verify(stored, record)
    else:
        snapshot_id = stored.plan.snapshot_id
    _require_empty(run, stored.plan_id, snapshot_id, brokers)
    if where.as_json:
        print_json(run.document(stored))
    else:
        named = " ".join(f"--broker {name}" for name in brokers)
        print_next(where.next_command(f"drain --undo {named}", is_live=True))


def _require_empty(run: InteractiveRun, plan_id: str, snapshot_id: str, brokers: Sequence[str]) -> None:
    from evenkeel.adapters.lake.plans import PlanStore
    from evenkeel.stages.drain import find_leftovers

    leftovers = find_leftovers(run.lake, run.connection.cluster, snapshot_id, brokers)
    run.note("leftovers", leftovers)
    if leftovers:
        named = f"{', '.join(leftovers[:MOST_NAMED])}{' …' if len(leftovers) > MOST_NAMED else ''}"
        document = run.document(PlanStore(run.lake).load(plan_id))
        fail(
            run.as_json,
            document,
            f"{len(leftovers)} bundles are still on the drained brokers ({named}): see above why they stay, "
            "then drain again",
        )
    if not run.as_json:
        out.print(f"[green]empty:[/] {escape(', '.join(brokers))}")


def _undo(where: InteractiveOptions, brokers: Sequence[str]) -> None:
    from evenkeel.stages.drain import unmark_brokers

    with working("removing the marks"):
        unmarked = unmark_brokers(where.connection, brokers)
    if where.as_json:
        print_json({"brokers": list(brokers), "unmarked": unmarked})
        return
    for broker in brokers:
        state = "may own bundles again" if broker in unmarked else "was not marked"
        out.print(f"{escape(broker)} {state}")
