"""The options that commands share, declared once, and how their values are found.

A command asks for a block of options by the type of a parameter, and `command` puts the block's options into the
command's signature:

    @command
    def snapshot(where: LiveOptions) -> None: ...

Each value comes from the option, else from its environment variable, else from `evenkeel.toml`, else from the default.
"""

from __future__ import annotations

import dataclasses
import getpass
import inspect
import os
import pwd
import shlex
import socket
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenkeel.cli.output import reporting
from evenkeel.configuration import (
    ADDRESS_KEYS,
    ClusterConfiguration,
    Configuration,
    find_configuration,
    load_settings,
    normalise_root,
)
from evenkeel.model.approval import ApprovalRules, Person
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.names import require_cluster_name
from evenkeel.model.outside_json import show
from evenkeel.model.settings import Settings

if TYPE_CHECKING:
    from evenkeel.adapters.approval_policy import ApprovalPolicy
    from evenkeel.adapters.lake.store import Lake

DEFAULT_MASTER = "local[*]"
DEFAULT_JOB_DEADLINE_S = 1800.0
WHERE = "Where"
"""The heading in a command's help under which the options stand that say where things are."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
PlanReference = Annotated[
    str, typer.Argument(metavar="PLAN", help="Plan id, a unique prefix of it, `latest`, or the plan's URI.")
]
RunReference = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, a unique prefix of it, `latest`, or the run's URI.")
]
Logs = Annotated[
    Path, typer.Option("--logs", envvar="EVENKEEL_LOGS", metavar="FOLDER", help="Folder for logs of planning.")
]
DEFAULT_LOGS = Path(".evenkeel/logs")
JobDeadline = Annotated[
    float, typer.Option("--job-deadline", metavar="SECONDS", help="Give up if planning takes longer.")
]


def _where(flag: str, variable: str, metavar: str, help: str) -> Any:
    return typer.Option(flag, envvar=variable, metavar=metavar, help=help, rich_help_panel=WHERE)


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """What every command that works on a cluster takes: the configuration file and the cluster's name."""

    context: typer.Context
    config: Annotated[
        Path | None,
        _where(
            "--config",
            "EVENKEEL_CONFIG",
            "FILE",
            "Configuration file; default: evenkeel.toml here, in ~/.config/evenkeel or /etc/evenkeel.",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        _where("--cluster", "EVENKEEL_CLUSTER", "NAME", "Pulsar cluster name; default: from the configuration file."),
    ] = None
    as_json: AsJson = False

    @cached_property
    def configuration(self) -> Configuration:
        given = self._value_of("config")
        return find_configuration(None if given is None else Path(given), Path.cwd(), Path.home())

    @property
    def known_cluster(self) -> str | None:
        """The cluster that was named, or the default one of the configuration file."""
        if self.cluster:
            return require_cluster_name(self.cluster)
        return self.configuration.default_cluster

    @property
    def cluster_name(self) -> str:
        if self.known_cluster is not None:
            return self.known_cluster
        if self.configuration.clusters:
            names = ", ".join(self.configuration.clusters)
            raise InputError(
                f"{self.configuration.file} has several clusters ({names}) and no default_cluster",
                "name one with --cluster",
            )
        return self._fail_without("cluster", "a [clusters.NAME] section")

    def section_of(self, cluster: str | None) -> ClusterConfiguration:
        """What the configuration file says about a cluster; nothing where the cluster is not in it."""
        return self.configuration.find(cluster) or ClusterConfiguration(cluster or "")

    def next_command(self, words: str, is_live: bool = False) -> str:
        """A command to run next, with those options that were typed for this one and are needed again."""
        needed = LIVE_OPTIONS if is_live else STORED_OPTIONS
        repeated = [
            f"{flag} {shlex.quote(str(self._value_of(name)))}" for name, flag in needed.items() if self._is_typed(name)
        ]
        knows_hosts = getattr(self, "zookeeper", None) or os.environ.get("EVENKEEL_ZOOKEEPER")
        if is_live and not knows_hosts and self.section_of(self.known_cluster).zookeeper is None:
            repeated.append("--zookeeper HOSTS")
        return " ".join(["evenkeel", words, *repeated])

    def _value_of(self, name: str) -> Any:
        """An option's value; one that was typed before the command's name counts more than the environment."""
        root = self.context.find_root()
        if not self._is_typed_here(name) and root.params.get(name) is not None:
            return root.params[name]
        return getattr(self, name, None)

    def _is_typed(self, name: str) -> bool:
        return self._is_typed_here(name) or self.context.find_root().params.get(name) is not None

    def _is_typed_here(self, name: str) -> bool:
        source = self.context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    def _fail_without(self, name: str, key: str) -> typing.NoReturn:
        """End as wrong usage: a value is missing, and this is where it could be given."""
        file = self.configuration.file or "evenkeel.toml"
        variable = f"EVENKEEL_{name.upper()}"
        self.context.fail(f"Missing option '--{name}'. Give it, set {variable}, or write {key} into {file}.")

    def approvals_for(self, cluster: str) -> ApprovalPolicy:
        """Whose approvals count for a cluster, by the configuration file, and the key to sign with."""
        from evenkeel.adapters.approval_policy import ApprovalPolicy

        return ApprovalPolicy.load(self.approval_rules_for(cluster), os.environ)

    def approval_rules_for(self, cluster: str) -> ApprovalRules:
        """What the configuration file says about approvals for a cluster; no key is read."""
        return self.configuration.approval_of(cluster)


@dataclass(frozen=True, kw_only=True)
class LakeOptions(CommonOptions):
    """For commands that read or write artifacts."""

    lake_uri: Annotated[
        str | None,
        _where("--lake", "EVENKEEL_LAKE", "URI", "Folder of snapshots, plans and runs: path or file:// URI."),
    ] = None

    @property
    def lake(self) -> Lake:
        """The lake to read from; one that does not exist is an error."""
        return _require_lake(self.lake_to_write)

    @property
    def lake_to_write(self) -> Lake:
        """The lake to store something new in; the first artifact creates it."""
        from evenkeel.adapters.lake.store import Lake

        if self.lake_uri is not None:
            return Lake(self.lake_uri)
        if self.configuration.clusters:
            section = self.configuration.require(self.cluster_name)
            if section.lake is not None:
                return Lake(section.lake)
            self._fail_without("lake", f"lake under [clusters.{section.name}]")
        return self._fail_without("lake", "a cluster's lake")

    def locate(self, kind: str, reference: str) -> tuple[Lake, str]:
        """Return the lake and the reference in it that PLAN or RUN stands for: a URI names both."""
        from evenkeel.adapters.lake.store import Lake

        root, found, rest = reference.rstrip("/").rpartition(f"/{kind}/")
        if found:
            return _require_lake(Lake(root)), rest
        if self.lake_uri is None and not self.configuration.clusters:
            raise InputError(f"no lake to look for {show(reference)} in", "give --lake, or the URI instead of an id")
        return self.lake, reference


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(CommonOptions):
    """For commands that settings steer."""

    settings_file: Annotated[
        Path | None,
        _where("--settings", "EVENKEEL_SETTINGS", "FILE", "TOML file with settings; see `evenkeel settings`."),
    ] = None

    def settings_for(self, cluster: str | None) -> Settings:
        """The settings of a cluster: those of the settings file over those of the configuration file."""
        section = self.configuration.find(cluster)
        below = self.configuration.settings if section is None else section.settings
        if self.settings_file is None:
            return Settings.from_json(below, str(self.configuration.file))
        return load_settings(self.settings_file, below)

    @property
    def settings(self) -> Settings:
        return self.settings_for(self.known_cluster)


@dataclass(frozen=True, kw_only=True)
class SparkOptions(CommonOptions):
    """For commands that may start Spark."""

    spark_master: Annotated[
        str | None, _where("--master", "EVENKEEL_MASTER", "URL", f"Spark master; default: {DEFAULT_MASTER}.")
    ] = None

    @property
    def master(self) -> str:
        return self.spark_master or self.section_of(self.known_cluster).spark_master or DEFAULT_MASTER


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions(CommonOptions):
    """For commands that talk to the cluster."""

    zookeeper: Annotated[
        str | None,
        _where("--zookeeper", "EVENKEEL_ZOOKEEPER", "HOSTS", "ZooKeeper servers of the cluster: host:port,host:port."),
    ] = None
    pulsar_root: Annotated[
        str | None,
        _where(
            "--pulsar-root",
            "EVENKEEL_PULSAR_ROOT",
            "PATH",
            "Pulsar's chroot in ZooKeeper, such as /pulsar; default: none.",
        ),
    ] = None
    evenkeel_root: Annotated[
        str | None,
        _where("--evenkeel-root", "EVENKEEL_ROOT", "PATH", "Root path of Evenkeel's own znodes; default: /evenkeel."),
    ] = None
    configuration_zookeeper: Annotated[
        str | None,
        _where(
            "--configuration-zookeeper",
            "EVENKEEL_CONFIGURATION_ZOOKEEPER",
            "HOSTS",
            "ZooKeeper servers of the configuration store, if it is a separate ensemble.",
        ),
    ] = None
    configuration_root: Annotated[
        str | None,
        _where(
            "--configuration-root",
            "EVENKEEL_CONFIGURATION_ROOT",
            "PATH",
            "Pulsar's chroot in the configuration store, if it is not the same as --pulsar-root.",
        ),
    ] = None
    zookeeper_security: Annotated[
        Path | None,
        _where(
            "--zookeeper-security",
            "EVENKEEL_ZOOKEEPER_SECURITY",
            "FILE",
            "TOML file with ZooKeeper's authentication, TLS and ACLs; it holds no secrets itself.",
        ),
    ] = None

    @property
    def connection(self) -> ClusterConnection:
        return self.connection_to(self.cluster_name)

    def connection_to(self, cluster: str) -> ClusterConnection:
        """How to reach a cluster: options first, then the configuration file."""
        from evenkeel.adapters.zookeeper.security import load_security

        section = self.section_of(cluster)
        hosts = self.zookeeper or section.zookeeper
        if hosts is None:
            if self.configuration.clusters:
                self.configuration.require(cluster)
            self._fail_without("zookeeper", f"zookeeper under [clusters.{cluster}]")
        optional: dict[str, Any] = {}
        for name in ADDRESS_KEYS[1:]:
            value = getattr(self, name) if getattr(self, name) is not None else getattr(section, name)
            if value is not None:
                optional[name] = normalise_root(value) if name.endswith("_root") else value
        security = self._value_of("zookeeper_security") or section.zookeeper_security
        if security is not None:
            optional["security"] = load_security(security, os.environ)
        return ClusterConnection(cluster, hosts, **optional)


# Help lists the options of the last base first.
@dataclass(frozen=True, kw_only=True)
class PlanningOptions(SparkOptions, SettingsOptions, LakeOptions):
    """For commands that plan from what is in the lake."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions(SparkOptions, LakeOptions):
    """For commands that judge what is in the lake."""


@dataclass(frozen=True, kw_only=True)
class LiveOptions(SettingsOptions, ConnectionOptions, LakeOptions):
    """For commands that talk to the cluster, and read or write artifacts."""


@dataclass(frozen=True, kw_only=True)
class InteractiveOptions(SparkOptions, LiveOptions):
    """For commands that plan, ask, apply and verify in one go."""

    is_approved: Annotated[
        bool, typer.Option("--yes", help="Approve the plan as the current user, without a prompt.")
    ] = False


STORED_OPTIONS: Mapping[str, str] = {"config": "--config", "cluster": "--cluster", "lake_uri": "--lake"}
LIVE_OPTIONS: Mapping[str, str] = {
    **STORED_OPTIONS,
    "zookeeper": "--zookeeper",
    "pulsar_root": "--pulsar-root",
    "evenkeel_root": "--evenkeel-root",
    "configuration_zookeeper": "--configuration-zookeeper",
    "configuration_root": "--configuration-root",
    "zookeeper_security": "--zookeeper-security",
}


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: its blocks of options become single ones, and its errors one sentence."""
    parameters: dict[str, inspect.Parameter] = {}
    blocks: dict[str, type[CommonOptions]] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if inspect.isclass(parameter.annotation) and issubclass(parameter.annotation, CommonOptions):
            blocks[name] = parameter.annotation
            parameters |= _parameters_of(parameter.annotation)
        else:
            parameters[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)

    def run(**values: Any) -> None:
        with reporting(bool(values.get("as_json"))):
            given = {name: _build(block, values) for name, block in blocks.items()}
            own = {name: value for name, value in values.items() if name in own_names}
            function(**own, **given)

    # What every command has comes last in its help.
    parameters["as_json"] = parameters.pop("as_json")
    own_names = set(inspect.signature(function).parameters) - set(blocks)
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return run


def _parameters_of(block: type[CommonOptions]) -> Mapping[str, inspect.Parameter]:
    hints = typing.get_type_hints(block, include_extras=True)
    found = {}
    for each in dataclasses.fields(block):
        default = inspect.Parameter.empty if each.default is dataclasses.MISSING else each.default
        found[each.name] = inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[each.name]
        )
    return found


def _build(block: type[CommonOptions], values: Mapping[str, Any]) -> CommonOptions:
    return block(**{each.name: values[each.name] for each in dataclasses.fields(block)})


def _require_lake(lake: Lake) -> Lake:
    lake.require_existing()
    return lake


def current_person(name: str | None = None) -> Person:
    """Who runs this command, by the account of this process, under the name that was given or the user's own."""
    return Person(name or current_user(), f"OS user {_account_name()}", socket.gethostname())


def _account_name() -> str:
    """The account of this process; unlike `getuser`, no environment variable can change it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def current_user() -> str:
    """Who runs this command, for everything that is recorded under a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise InputError(
            "the current user has no name on this machine",
            "set the environment variable LOGNAME, or give --by where there is one",
        ) from error
