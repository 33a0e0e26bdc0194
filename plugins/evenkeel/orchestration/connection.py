"""The Airflow connection that says which cluster is kept on an even keel, and which lake its data go to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from evenkeel.adapters.lake import Lake

DEFAULT_CONNECTION_ID = "evenkeel_default"
SPARK_CONNECTION_ID = "spark_default"
REQUIRED_FIELDS = ("cluster", "lake")
OPTIONAL_FIELDS = ("pulsar_root", "evenkeel_root", "configuration_zookeeper")
KNOWN_FIELDS = frozenset({*REQUIRED_FIELDS, *OPTIONAL_FIELDS, "settings", "zookeeper_security"})


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """What a task needs to work on one cluster."""

    lake: Lake
    connection: ClusterConnection
    settings: Settings

    @property
    def cluster(self) -> str:
        return self.connection.cluster


class EvenkeelHook(BaseHook):
    """Turns an Airflow connection into a lake, a cluster and settings; opens no session by itself.

    Host: the ZooKeeper hosts, `zk1:2181,zk2:2181`. Extra, a JSON object: `cluster` and `lake`; where they differ from
    the default `pulsar_root`, `evenkeel_root`, `configuration_zookeeper`; `settings`, the absolute path of a TOML
    file or the settings themselves as an object; and `zookeeper_security`, the absolute path of the file that says how
    ZooKeeper is entered.
    """

    conn_name_attr = "conn_id"
    default_conn_name = DEFAULT_CONNECTION_ID
    conn_type = "evenkeel"
    hook_name = "Evenkeel"

    def __init__(self, conn_id: str = DEFAULT_CONNECTION_ID) -> None:
        super().__init__()
        self._conn_id = conn_id

    def get_conn(self) -> ClusterAccess:
        return read_connection(self.get_connection(self._conn_id))


def read_connection(connection: Connection) -> ClusterAccess:
    """The cluster that a connection describes; a wrong or missing field is refused by its name."""
    try:
        return _read_access(connection)
    except InputError as error:
        raise InputError(f"connection {connection.conn_id!r}: {error.cause}", error.remedy) from error


def read_spark_master(conn_id: str = SPARK_CONNECTION_ID) -> str:
    """The master URL of a Spark connection, as the Spark provider reads it: in the host, scheme included."""
    connection = BaseHook.get_connection(conn_id)
    host = connection.host or ""
    if not host:
        raise InputError(f"connection {conn_id!r}: host is missing", "give the Spark master, such as local[*]")
    is_whole_url = connection.conn_type == "spark" and ("://" in host or not connection.port)
    master = host if is_whole_url else f"{connection.conn_type}://{host}"
    return f"{master}:{connection.port}" if connection.port else master


def _read_access(connection: Connection) -> ClusterAccess:
    from evenkeel.adapters.lake import Lake
    from evenkeel.adapters.zookeeper_security import load_security

    extra = _read_extra(connection.extra)
    for field in REQUIRED_FIELDS:
        if field not in extra:
            raise InputError(f"{field} is missing", f"add {field} to the connection's extra")
    optional: dict[str, Any] = {field: _text(extra, field) for field in OPTIONAL_FIELDS if field in extra}
    if "zookeeper_security" in extra:
        optional["security"] = load_security(Path(_text(extra, "zookeeper_security")), os.environ)
    return ClusterAccess(
        Lake(_text(extra, "lake")),
        ClusterConnection(_text(extra, "cluster"), _zookeeper_hosts(connection), **optional),
        _read_settings(extra.get("settings", {})),
    )


def _read_extra(text: str | None) -> Mapping[str, Any]:
    try:
        extra = json.loads(text or "{}")
    except ValueError as error:
        raise InputError(f"extra is not JSON ({error})", "write extra as a JSON object") from error
    if not isinstance(extra, dict):
        raise InputError("extra is not a JSON object", 'write it as {"cluster": "…", "lake": "…"}')
    unknown = sorted(set(extra) - KNOWN_FIELDS)
    if unknown:
        raise InputError(f"unknown field {unknown[0]!r} in extra", f"use {', '.join(sorted(KNOWN_FIELDS))}")
    return extra


def _text(extra: Mapping[str, Any], field: str) -> str:
    value = extra[field]
    if not isinstance(value, str):
        raise InputError(f"{field} = {value!r} is not text", f"write {field} as a string")
    return value


def _zookeeper_hosts(connection: Connection) -> str:
    hosts = connection.host or ""
    if not hosts:
        raise InputError("host is missing", "give the ZooKeeper hosts, such as zk1:2181,zk2:2181")
    if not connection.port:
        return hosts
    if ":" in hosts or "," in hosts:
        raise InputError(f"port is given beside host = {hosts!r}", "write each port into host")
    return f"{hosts}:{connection.port}"


def _read_settings(value: Any) -> Settings:
    if isinstance(value, Mapping):
        return Settings.from_json(value)
    if isinstance(value, str) and Path(value).is_absolute():
        return Settings.load(Path(value))
    raise InputError(f"settings = {value!r} is not usable", "give the absolute path of a TOML file, or an object")
