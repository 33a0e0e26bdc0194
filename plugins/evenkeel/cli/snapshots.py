"""`evenkeel snapshot` and `evenkeel import`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from evenkeel.adapters.lake import Lake
from evenkeel.cli.options import (
    AsJson,
    Cluster,
    ConfigurationStore,
    LakeUri,
    PulsarRoot,
    SettingsFile,
    ZooKeeper,
    connect,
    load_settings,
)
from evenkeel.cli.output import escape, out, print_json, reporting, working
from evenkeel.model.moments import parse_time
from evenkeel.model.snapshot import SnapshotManifest


def snapshot(
    zookeeper: ZooKeeper,
    cluster: Cluster,
    lake: LakeUri,
    pulsar_root: PulsarRoot = "",
    configuration_zookeeper: ConfigurationStore = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Read a running cluster and store what is found in the lake."""
    from evenkeel.stages.snapshot import take_snapshot

    with reporting(as_json):
        connection = connect(cluster, zookeeper, pulsar_root, configuration_zookeeper)
        with working(f"reading cluster {cluster}"):
            manifest = take_snapshot(Lake(lake), connection, load_settings(settings))
        _print(manifest, as_json)


def import_(
    brokers: Annotated[Path, typer.Option("--brokers", help="brokers.csv")],
    bundles: Annotated[Path, typer.Option("--bundles", help="bundles.csv")],
    cluster: Cluster,
    lake: LakeUri,
    policies: Annotated[Path | None, typer.Option("--policies", help="policies.json")] = None,
    taken_at: Annotated[str | None, typer.Option("--taken-at", help="When this was so, ISO 8601; default now.")] = None,
    as_json: AsJson = False,
) -> None:
    """Store a cluster described by plain files in the lake, for what-if planning."""
    from evenkeel.stages.snapshot import import_snapshot

    with reporting(as_json):
        moment = datetime.now(UTC) if taken_at is None else parse_time(taken_at)
        with working(f"importing {bundles}"):
            manifest = import_snapshot(Lake(lake), brokers, bundles, policies, cluster, moment)
        _print(manifest, as_json)


def _print(manifest: SnapshotManifest, as_json: bool) -> None:
    if as_json:
        print_json(manifest.to_json())
        return
    rows = ", ".join(f"{table.rows:,} {name}" for name, table in manifest.tables.items())
    out.print(f"snapshot [bold]{manifest.snapshot_id}[/] of {escape(manifest.cluster)}: {rows}")
    for broker in manifest.brokers_without_report:
        out.print(f"[yellow]warning:[/] broker {escape(broker)} has no load report; the gate will block planning")
    for broker in manifest.brokers_with_stale_report:
        out.print(f"[yellow]warning:[/] the report of broker {escape(broker)} is too old; the gate will block planning")
    for note in manifest.notes:
        out.print(f"[yellow]note:[/] {escape(note)}")
