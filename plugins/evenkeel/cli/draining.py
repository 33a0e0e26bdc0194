"""`evenkeel drain`: empty brokers for maintenance, and let them have bundles again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from evenkeel.adapters.lake import Lake
from evenkeel.cli.options import (
    DEFAULT_JOB_DEADLINE_S,
    DEFAULT_MASTER,
    AsJson,
    Cluster,
    ConfigurationStore,
    JobDeadline,
    LakeUri,
    Master,
    PulsarRoot,
    SettingsFile,
    Yes,
    ZooKeeper,
    connect,
    current_user,
    load_settings,
)
from evenkeel.cli.output import escape, fail, out, print_json, reporting, working
from evenkeel.cli.way import Way
from evenkeel.model.connection import ClusterConnection

MOST_NAMED = 5


def drain(
    broker: Annotated[list[str], typer.Option("--broker", help="A broker to empty, host:port; may be given again.")],
    zookeeper: ZooKeeper,
    cluster: Cluster,
    lake: LakeUri,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the mark away, so that it may have bundles again.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; the mark carries it.")] = "",
    pulsar_root: PulsarRoot = "",
    configuration_zookeeper: ConfigurationStore = None,
    settings: SettingsFile = None,
    master: Master = DEFAULT_MASTER,
    job_deadline: JobDeadline = DEFAULT_JOB_DEADLINE_S,
    logs: Annotated[Path, typer.Option("--logs", help="Where spark-submit's output goes.")] = Path(".evenkeel/logs"),
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Empty brokers for maintenance: mark them, plan, check, ask, apply, and see that nothing is left on them."""
    from evenkeel.stages.drain import mark_brokers, plan_drain

    with reporting(as_json):
        connection = connect(cluster, zookeeper, pulsar_root, configuration_zookeeper)
        brokers = sorted(set(broker))
        if undo:
            _undo(connection, brokers, as_json)
            return
        way = Way(Lake(lake), connection, load_settings(settings), master, yes, as_json)
        with working("marking the brokers") as say:
            mark_brokers(connection, brokers, current_user(), reason)
            say("reading the cluster")
            stored = plan_drain(way.lake, connection, way.settings, master, logs, job_deadline, say)
        way.note("brokers", brokers)
        if not as_json:
            out.print(f"{escape(', '.join(brokers))} marked for draining; `evenkeel drain --undo` takes the mark away")
        if stored.steps:
            way.check(stored)
            way.get_approval(stored)
            run = way.apply(stored)
            way.show_left(stored.rejections)
            snapshot_id = way.verify(stored, run)
        else:
            snapshot_id = stored.plan.snapshot_id
        _require_empty(way, stored.plan_id, snapshot_id, brokers)
        if as_json:
            print_json(way.told(stored))


def _require_empty(way: Way, plan_id: str, snapshot_id: str, brokers: Sequence[str]) -> None:
    from evenkeel.adapters.plans import PlanStore
    from evenkeel.stages.drain import find_leftovers

    leftovers = find_leftovers(way.lake, way.connection.cluster, snapshot_id, brokers)
    way.note("leftovers", leftovers)
    if leftovers:
        named = f"{', '.join(leftovers[:MOST_NAMED])}{' …' if len(leftovers) > MOST_NAMED else ''}"
        told = way.told(PlanStore(way.lake).load(plan_id))
        fail(
            way.as_json,
            told,
            f"{len(leftovers)} bundles are still there ({named}): see why they stay, then drain again",
        )
    if not way.as_json:
        out.print(f"[green]empty:[/] {escape(', '.join(brokers))}")


def _undo(connection: ClusterConnection, brokers: Sequence[str], as_json: bool) -> None:
    from evenkeel.stages.drain import unmark_brokers

    with working("taking the marks away"):
        taken = unmark_brokers(connection, brokers)
    if as_json:
        print_json({"brokers": list(brokers), "unmarked": taken})
        return
    for broker in brokers:
        was = "may have bundles again" if broker in taken else "was not marked"
        out.print(f"{escape(broker)} {was}")
