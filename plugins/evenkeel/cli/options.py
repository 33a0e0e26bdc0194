"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import getpass
import os
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

import typer

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.zookeeper_security import load_security
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings
from evenkeel.model.zookeeper_security import NO_SECURITY, ZooKeeperSecurity

DEFAULT_MASTER = "local[*]"
DEFAULT_JOB_DEADLINE_S = 1800.0

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
ZooKeeperSecurityFile = Annotated[
    Path | None,
    typer.Option(
        "--zookeeper-security",
        envvar="EVENKEEL_ZOOKEEPER_SECURITY",
        help="A TOML file that says how ZooKeeper is entered: digest or SASL, TLS, ACLs. It holds no secret itself.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Approve the plan as the current user, without being asked.")]
Master = Annotated[str, typer.Option("--master", help="Spark master.")]
JobDeadline = Annotated[
    float, typer.Option("--job-deadline", help="Seconds that each Spark job may take before it is ended.")
]


_security_file: ContextVar[Path | None] = ContextVar("zookeeper_security", default=None)


def choose_security(file: Path | None) -> None:
    """Take what the option before the command's name says, for every command that touches the cluster."""
    _security_file.set(file)


def load_settings(file: Path | None) -> Settings:
    return Settings() if file is None else Settings.load(file)


def connect(
    cluster: str, zookeeper: str, pulsar_root: str = "", configuration_zookeeper: str | None = None
) -> ClusterConnection:
    return ClusterConnection(
        cluster,
        zookeeper,
        pulsar_root=pulsar_root,
        configuration_zookeeper=configuration_zookeeper,
        security=_security(),
    )


def _security() -> ZooKeeperSecurity:
    file = _security_file.get()
    return NO_SECURITY if file is None else load_security(file, os.environ)


def locate(kind: str, reference: str, lake_uri: str | None) -> tuple[Lake, str]:
    """The lake and the id that PLAN or RUN stands for: a directory's URI, or an id together with --lake."""
    root, found, rest = reference.rstrip("/").rpartition(f"/{kind}/")
    if found:
        return Lake(root), rest
    if lake_uri is None:
        raise InputError(f"{reference!r} is an id without a lake", "give --lake, or the directory's URI")
    return Lake(lake_uri), reference


def current_user() -> str:
    """Who runs this command, for everything that is put down under a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise InputError(
            "this user has no name on this machine",
            "set the environment variable LOGNAME, or give --by where there is one",
        ) from error
