"""`evenkeel snapshot` and `evenkeel import`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from evenkeel.cli.options import LakeOptions, LiveOptions, command
from evenkeel.cli.output import escape, out, print_json, print_next, working
from evenkeel.model.snapshot import SnapshotManifest
from evenkeel.model.timestamps import parse_time

MOST_NAMED = 5


@command
def snapshot(where: LiveOptions) -> None:
    """Read a running cluster and store its load in the lake.

    Nothing is written to ZooKeeper or to the brokers.
    """
    from evenkeel.stages.snapshot import take_snapshot

    connection, lake = where.connection, where.lake_to_write
    with working(f"reading cluster {connection.cluster}"):
        manifest = take_snapshot(lake, connection, where.settings_for(connection.cluster))
    _print(manifest, where)


@command
def import_(
    where: LakeOptions,
    brokers: Annotated[Path, typer.Option("--brokers", metavar="FILE", help="CSV file with one broker per row.")],
    bundles: Annotated[Path, typer.Option("--bundles", metavar="FILE", help="CSV file with one bundle per row.")],
    policies: Annotated[
        Path | None, typer.Option("--policies", metavar="FILE", help="JSON file with policies.")
    ] = None,
    taken_at: Annotated[
        str | None, typer.Option("--taken-at", metavar="TIME", help="Time of measurement, ISO 8601; default: now.")
    ] = None,
) -> None:
    """Store a cluster described by CSV files, for what-if planning.

    docs/guides/what-if.md lists the columns.
    """
    from evenkeel.stages.snapshot import import_snapshot

    cluster, lake = where.cluster_name, where.lake_to_write
    moment = datetime.now(UTC) if taken_at is None else parse_time(taken_at)
    with working(f"importing {bundles}"):
        manifest = import_snapshot(lake, brokers, bundles, policies, cluster, moment)
    _print(manifest, where)


def _print(manifest: SnapshotManifest, where: LakeOptions) -> None:
    if where.as_json:
        print_json(manifest.to_json())
        return
    rows = ", ".join(f"{table.rows:,} {name}" for name, table in manifest.tables.items())
    out.print(f"snapshot [bold]{manifest.snapshot_id}[/] of {escape(manifest.cluster)}: {rows}")
    for fault, brokers in (
        ("no load report", manifest.brokers_without_report),
        ("a stale load report", manifest.brokers_with_stale_report),
    ):
        if brokers:
            named = escape(", ".join(brokers[:MOST_NAMED]) + (" …" if len(brokers) > MOST_NAMED else ""))
            counted = f"{len(brokers)} broker{'s' if len(brokers) > 1 else ''} with {fault}"
            out.print(f"[yellow]warning:[/] {counted}: {named}; their pools are not planned unless they are drained")
    for note in manifest.notes:
        out.print(f"[yellow]note:[/] {escape(note)}")
    print_next(where.next_command("plan"))
