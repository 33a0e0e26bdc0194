"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenkeel.adapters.lake import Lake
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings

DEFAULT_MASTER = "local[*]"

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
LakeUri = Annotated[
    str, typer.Option("--lake", envvar="EVENKEEL_LAKE", help="Where artifacts lie: a path or file:// URI.")
]
MaybeLakeUri = Annotated[
    str | None, typer.Option("--lake", envvar="EVENKEEL_LAKE", help="The lake, where PLAN or RUN is an id.")
]
Cluster = Annotated[str, typer.Option("--cluster", envvar="EVENKEEL_CLUSTER", help="Pulsar's name of the cluster.")]
ZooKeeper = Annotated[str, typer.Option("--zookeeper", envvar="EVENKEEL_ZOOKEEPER", help="host:port,host:port")]
PulsarRoot = Annotated[str, typer.Option("--pulsar-root", help="Pulsar's root path in ZooKeeper, such as /pulsar.")]
ConfigurationStore = Annotated[
    str | None,
    typer.Option("--configuration-zookeeper", help="Hosts of the configuration store, if it is another one."),
]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", envvar="EVENKEEL_SETTINGS", help="A TOML file; see `evenkeel settings`.")
]
Master = Annotated[str, typer.Option("--master", help="Spark master.")]


def load_settings(file: Path | None) -> Settings:
    return Settings() if file is None else Settings.load(file)


def connect(
    cluster: str, zookeeper: str, pulsar_root: str = "", configuration_zookeeper: str | None = None
) -> ClusterConnection:
    return ClusterConnection(
        cluster, zookeeper, pulsar_root=pulsar_root, configuration_zookeeper=configuration_zookeeper
    )


def locate(kind: str, reference: str, lake_uri: str | None) -> tuple[Lake, str]:
    """The lake and the id that PLAN or RUN stands for: a directory's URI, or an id together with --lake."""
    root, found, rest = reference.rstrip("/").rpartition(f"/{kind}/")
    if found:
        return Lake(root), rest
    if lake_uri is None:
        raise InputError(f"{reference!r} is an id without a lake", "give --lake, or the directory's URI")
    return Lake(lake_uri), reference
