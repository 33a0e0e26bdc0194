"""`evenkeel stop` and `evenkeel resume`: the kill switch of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from evenkeel.cli.options import AsJson, Cluster, ZooKeeper, connect, current_user
from evenkeel.cli.output import escape, out, print_json, reporting, working

Reason = Annotated[str, typer.Option("--reason", help="Why; whoever is stopped reads it.")]


def stop(zookeeper: ZooKeeper, cluster: Cluster, reason: Reason = "", as_json: AsJson = False) -> None:
    """Stop all writing to the cluster at once: a run that is under way begins no further step."""
    from evenkeel.stages.kill_switch import stop_writing

    with reporting(as_json):
        connection = connect(cluster, zookeeper)
        with working("stopping all writing"):
            order, is_new = stop_writing(connection, current_user(), reason)
        if as_json:
            print_json({"cluster": cluster, "stopped": True, "is_new": is_new, "order": order.to_json()})
        elif is_new:
            out.print(f"all writing to {escape(cluster)} is stopped; `evenkeel resume` lets it go on")
        else:
            out.print(f"all writing to {escape(cluster)} was stopped already by {escape(str(order))}")


def resume(zookeeper: ZooKeeper, cluster: Cluster, as_json: AsJson = False) -> None:
    """Let writers go on after a stop; a stopped run goes on when its plan is applied again."""
    from evenkeel.stages.kill_switch import resume_writing

    with reporting(as_json):
        connection = connect(cluster, zookeeper)
        with working("letting writers go on"):
            order = resume_writing(connection)
        if as_json:
            standing = None if order is None else order.to_json()
            print_json({"cluster": cluster, "stopped": False, "order": standing})
        elif order is None:
            out.print(f"writing to {escape(cluster)} was not stopped")
        else:
            out.print(f"writers may go on; {escape(cluster)} had been stopped by {escape(str(order))}")
            out.print("a run that was stopped goes on when its plan is applied again")
