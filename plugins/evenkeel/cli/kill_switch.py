"""`evenkeel stop` and `evenkeel resume`: the kill switch of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from evenkeel.cli.options import ConnectionOptions, SettingsOptions, command, current_user
from evenkeel.cli.output import escape, fail, out, print_json, print_next, working

if TYPE_CHECKING:
    from evenkeel.stages.kill_switch import StoppedRoot

MOST_BUNDLES_SHOWN = 5
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; shown to everybody who is stopped.")]
Wait = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0.0, help="How long to wait for the writer to stop.")
]


@dataclass(frozen=True, kw_only=True)
class StopOptions(SettingsOptions, ConnectionOptions):
    """Where the cluster is, and how to ask its brokers for its name."""


@command
def stop(where: StopOptions, reason: Reason = "", wait: Wait = 10.0) -> None:
    """Stop all of Evenkeel's writes to a cluster at once.

    A run in progress starts no further step, and no run starts until `evenkeel resume`. Steps in flight finish. The
    command says who was writing, and shows that this writer is shut out.
    """
    from evenkeel.stages.kill_switch import stop_writing

    connection = where.connection
    settings = where.settings_for(connection.cluster)
    with working("stopping all writes"):
        done = stop_writing(connection, current_user(), reason, settings, wait)
    document = {
        "cluster": connection.cluster,
        "stopped": not done.not_stopped,
        "is_new": done.own.pulled.is_new,
        "order": done.own.pulled.directive.to_json(),
        "roots": [root.to_json() for root in done.stopped],
        "not_stopped": [{"root": root, "error": error} for root, error in done.not_stopped],
        "balancer_left_off": list(done.left_off),
    }
    if not where.as_json:
        for sentence in _tell(connection.cluster, done.stopped):
            out.print(escape(sentence))
        for left in done.left_off:
            out.print(f"[yellow]warning:[/] {escape(left)}; `evenkeel restore-balancer` switches them back")
    if done.not_stopped:
        root, error = done.not_stopped[0]
        fail(where.as_json, document, f"writers below the Evenkeel root {root} are not stopped: {error}")
    if where.as_json:
        print_json(document)
        return
    print_next(where.next_command("resume", is_live=True))


@command
def resume(where: ConnectionOptions) -> None:
    """Allow writes again after a stop.

    A run that was stopped continues when its plan is applied again.
    """
    from evenkeel.stages.kill_switch import resume_writing

    connection = where.connection
    with working("allowing writes again"):
        done = resume_writing(connection)
    still = [{"root": root, "order": directive.to_json()} for root, directive in done.still_stopped]
    if where.as_json:
        former = None if done.directive is None else done.directive.to_json()
        print_json({"cluster": connection.cluster, "stopped": False, "order": former, "still_stopped": still})
        return
    if done.directive is None:
        out.print(f"writes to {escape(connection.cluster)} were not stopped")
    else:
        stopped_by = escape(str(done.directive))
        out.print(f"writes to {escape(connection.cluster)} are allowed again; they were stopped by {stopped_by}")
        out.print("to continue a run that was stopped, apply its plan again")
    for root, directive in done.still_stopped:
        sentence = f"writers below the Evenkeel root {root} are still stopped by {directive}"
        out.print(f"[yellow]warning:[/] {escape(sentence)}; resume them with --evenkeel-root {escape(root)}")


def _tell(cluster: str, stopped: tuple[StoppedRoot, ...]) -> Iterator[str]:
    for root in stopped:
        below = f" below the Evenkeel root {root.root or '/'}" if len(stopped) > 1 else ""
        if root.pulled.is_new:
            yield f"all writes to {cluster}{below} are stopped"
        else:
            yield f"writes to {cluster}{below} were already stopped by {root.pulled.directive}"
        yield from _tell_writer(root)


def _tell_writer(root: StoppedRoot) -> Iterator[str]:
    pulled = root.pulled
    raised = f"the fence was raised from version {pulled.fence_before} to {pulled.fence_after}"
    if pulled.fence_before == pulled.fence_after:
        raised = f"the fence is at version {pulled.fence_after}"
    if pulled.writer is None:
        yield f"nobody was writing; {raised}"
        return
    yield f"stopped the writer: {pulled.writer}"
    if root.has_let_go:
        yield f"it has released the fence; {raised}"
    else:
        yield f"it has not released the fence yet, but its next write will be refused: {raised}"
    if root.calls_in_flight:
        yield f"admin calls that were already sent may still finish: {_list(root.calls_in_flight)}"
    elif root.in_flight:
        yield f"steps in flight are finished by the brokers: {_list(root.in_flight)}"


def _list(bundles: tuple[str, ...]) -> str:
    more = len(bundles) - MOST_BUNDLES_SHOWN
    return ", ".join(bundles[:MOST_BUNDLES_SHOWN]) + (f" and {more} more" if more > 0 else "")
