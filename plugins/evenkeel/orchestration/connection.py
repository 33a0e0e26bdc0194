"""A cluster with its lake and its settings, as a section of the configuration file or an Airflow connection says."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from evenkeel.configuration import (
    ADDRESS_KEYS,
    ClusterConfiguration,
    Configuration,
    load_configuration,
    load_settings,
    normalise_root,
    read_approval_rules,
)
from evenkeel.model.approval import ApprovalRules
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.names import require_cluster_name, suggest
from evenkeel.model.settings import Settings
from evenkeel.orchestration.clusters import SPARK_CONNECTION_ID, read_configuration

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from evenkeel.adapters.approval_policy import ApprovalPolicy
    from evenkeel.adapters.lake.store import Lake
    from evenkeel.windows.calendar import WindowCalendar

DEFAULT_CONNECTION_ID = "evenkeel_default"
ADDRESS_FIELDS = ADDRESS_KEYS[1:]
"""All but ZooKeeper's hosts, which are the host of an Airflow connection."""
KNOWN_FIELDS = ("config", "cluster", "lake", *ADDRESS_FIELDS, "settings", "zookeeper_security", "approval")


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """What a task needs to work on one cluster."""

    lake: Lake
    connection: ClusterConnection
    settings: Settings
    approval_rules: ApprovalRules
    configuration: ClusterConfiguration

    @property
    def approvals(self) -> ApprovalPolicy:
        """Whose approvals count; only what approves or applies needs the keys, so they are read when asked for."""
        from evenkeel.adapters.approval_policy import ApprovalPolicy

        return ApprovalPolicy.load(self.approval_rules, os.environ)

    @property
    def cluster(self) -> str:
        return self.connection.cluster

    @property
    def spark_master(self) -> str:
        """Where a gate of this cluster runs, as the Spark connection says."""
        return read_spark_master(self.configuration.spark_connection or SPARK_CONNECTION_ID)

    @property
    def windows(self) -> WindowCalendar:
        """The cluster's maintenance windows; freeze calendars are read when asked for."""
        return self.configuration.windows_on(datetime.now(UTC).date())


class EvenkeelHook(BaseHook):
    """Turns an Airflow connection into a lake, a cluster and settings; opens no session itself.

    Host: the ZooKeeper servers, `zk1:2181,zk2:2181`. Extra, a JSON object: `cluster` and `lake`; where they differ from
    the default, `pulsar_root`, `evenkeel_root`, `configuration_zookeeper` and `configuration_root`; `settings`, the
    absolute path of a TOML file or the settings themselves as an object; `zookeeper_security`, the absolute path of a
    ZooKeeper security file; and `approval`, an object with the keys of the section `approval` of evenkeel.toml and
    absolute paths. With `config`, the absolute path of an evenkeel.toml, whatever the connection does not say is read
    from there.
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


def open_access(cluster: str | None) -> ClusterAccess:
    """A cluster by its name in the configuration file; None is the one of the connection `evenkeel_default`.

    A section that names an Airflow connection is completed by it, and the connection's fields go first.
    """
    if cluster is None:
        return EvenkeelHook().get_conn()
    configuration = read_configuration()
    section = configuration.require(cluster)
    if section.airflow_connection is not None:
        return read_connection(BaseHook.get_connection(section.airflow_connection), section)
    try:
        return _build_access({}, None, section)
    except InputError as error:
        raise InputError(f"{configuration.file}: cluster {cluster!r}: {error.cause}", error.remedy) from error


def read_connection(connection: Connection, section: ClusterConfiguration | None = None) -> ClusterAccess:
    """The cluster that a connection describes, over a section of the configuration file if one is given.

    A wrong or missing field is refused by its name, and so is a connection of another cluster than the section's.
    """
    try:
        extra = _read_extra(connection.extra)
        found = _read_section(extra) if section is None or "config" in extra else section
        if section is not None and (_text(extra, "cluster") or found.name) != section.name:
            raise InputError(f"it is for another cluster than {section.name!r}", "correct its cluster")
        return _build_access(extra, _zookeeper_hosts(connection), found)
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


def _build_access(extra: Mapping[str, Any], hosts: str | None, section: ClusterConfiguration) -> ClusterAccess:
    from evenkeel.adapters.lake.store import Lake
    from evenkeel.adapters.zookeeper.security import load_security

    lake = _text(extra, "lake") or section.lake
    if lake is None:
        raise InputError("lake is missing", "add lake to the connection's extra or to evenkeel.toml")
    optional: dict[str, Any] = {}
    for field in ADDRESS_FIELDS:
        value = _text(extra, field)
        value = getattr(section, field) if value is None else value
        if value is not None:
            optional[field] = normalise_root(value) if field.endswith("_root") else value
    security = _text(extra, "zookeeper_security") or section.zookeeper_security
    if security is not None:
        optional["security"] = load_security(Path(security), os.environ)
    hosts = hosts or section.zookeeper
    if hosts is None:
        raise InputError(
            "the ZooKeeper hosts are missing",
            "give them as the connection's host or as zookeeper in evenkeel.toml, such as zk1:2181,zk2:2181",
        )
    return ClusterAccess(
        Lake(lake),
        ClusterConnection(section.name, hosts, **optional),
        _read_settings(extra.get("settings"), section),
        _read_approval(extra, section),
        section,
    )


def _read_section(extra: Mapping[str, Any]) -> ClusterConfiguration:
    """What the configuration file says about the cluster; nothing but the name where there is no file."""
    cluster, file = _text(extra, "cluster"), _text(extra, "config")
    configuration = Configuration() if file is None else load_configuration(_absolute("config", file))
    name = cluster or configuration.default_cluster
    if name is None:
        raise InputError("cluster is missing", "add cluster to the connection's extra")
    require_cluster_name(name)
    return ClusterConfiguration(name) if file is None else configuration.require(name)


def _read_approval(extra: Mapping[str, Any], section: ClusterConfiguration) -> ApprovalRules:
    """Whose approvals count: what the connection says, else the configuration file."""
    value = extra.get("approval")
    if value is None:
        return section.approval or ApprovalRules()
    if not isinstance(value, Mapping):
        raise InputError(f"approval = {value!r} is not an object", 'write it as {"approvers": ["/…/on-call.pub"]}')
    rules = read_approval_rules("approval", value, Path("/"))
    for file in (*value.get("approvers", ()), value.get("signing_key")):
        if file is not None:
            _absolute("approval", file)
    return rules


def _read_extra(text: str | None) -> Mapping[str, Any]:
    try:
        extra = json.loads(text or "{}")
    except ValueError as error:
        raise InputError(f"extra is not JSON ({error})", "write extra as a JSON object") from error
    if not isinstance(extra, dict):
        raise InputError("extra is not a JSON object", 'write it as {"cluster": "…", "lake": "…"}')
    unknown = sorted(set(extra) - set(KNOWN_FIELDS))
    if unknown:
        raise InputError(f"unknown field {unknown[0]!r} in extra", suggest(unknown[0], KNOWN_FIELDS))
    return extra


def _text(extra: Mapping[str, Any], field: str) -> str | None:
    value = extra.get(field)
    # Airflow's form stores an empty optional field as null.
    if value is not None and not isinstance(value, str):
        raise InputError(f"{field} = {value!r} is not text", f"write {field} as a string")
    return value


def _absolute(field: str, path: str) -> Path:
    if not Path(path).is_absolute():
        # Airflow's processes start in folders that nobody chose.
        raise InputError(f"{field} = {path!r} is not an absolute path", "write it from / on")
    return Path(path)


def _zookeeper_hosts(connection: Connection) -> str | None:
    hosts = connection.host or ""
    if not connection.port or not hosts:
        return hosts or None
    if ":" in hosts or "," in hosts:
        raise InputError(f"port is given beside host = {hosts!r}", "write each port into host")
    return f"{hosts}:{connection.port}"


def _read_settings(value: Any, section: ClusterConfiguration) -> Settings:
    """The settings of the connection over those of the configuration file."""
    if value is None:
        return Settings.from_json(section.settings)
    if isinstance(value, Mapping):
        return Settings.from_json({**section.settings, **value})
    if not isinstance(value, str) or not Path(value).is_absolute():
        raise InputError(f"settings = {value!r} is not usable", "give the absolute path of a TOML file, or an object")
    return load_settings(Path(value), section.settings)
