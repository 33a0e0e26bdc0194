"""`evenkeel.toml`: the clusters, where each one and its lake are, and the settings to plan and apply with.

    default_cluster = "prod"            # not needed where there is only one

    [settings]                          # for every cluster; `evenkeel settings` lists them all
    tolerance = 0.05

    [clusters.prod]
    zookeeper = "zk1:2181,zk2:2181"
    pulsar_root = "/pulsar"             # Pulsar's root path in ZooKeeper; "/" where it has none
    evenkeel_root = "/evenkeel"         # where Evenkeel keeps its own nodes
    configuration_zookeeper = "zk9:2181"    # where policies are in another ensemble
    configuration_root = "/conf"        # Pulsar's root path there, where it is not the same
    zookeeper_security = "zookeeper.toml"
    lake = "/var/lib/evenkeel"
    spark_master = "local[*]"
    airflow_connection = "evenkeel_prod"    # in Airflow: a connection whose fields go before these
    spark_connection = "spark_prod"     # in Airflow: where the planning job runs; else spark_default

    [clusters.prod.settings]            # for this cluster, over [settings]
    objective = "disruption"

    [clusters.prod.approval]            # whose approvals count; [approval] is for every cluster without its own
    approvers = ["keys/on-call.pub"]    # public keys; an approval has to be signed with one of them
    revoked_keys = ["1a2b3c4d5e6f7081"] # ids of keys that no longer count
    signing_key = "keys/on-call.key"    # the private key to approve with here; EVENKEEL_SIGNING_KEY goes before it
    # unsigned = true                   # instead of all that: nobody has to sign
    mode = "four-eyes"                  # in Airflow, not the person who triggered the run; or "person": anybody
    people = ["ada", "grace"]           # the Airflow users who may approve; without it, all who may answer there

    [[clusters.prod.windows]]           # when the cluster may be rebalanced; evenkeel/windows/rules.py has all keys
    name = "weekend nights"
    days = ["sat", "sun"]
    start = "02:00"
    duration = "3h"
    time_zone = "Europe/Berlin"

    [clusters.prod.blackouts]           # when it may not
    dates = ["2026-12-20/2027-01-06"]

Relative paths start at the folder of the file. The file holds no secrets: `zookeeper_security` and `signing_key` name
files that hold them or say where they are. A key that Evenkeel does not know is an error, so that a typo never goes
unnoticed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

from evenkeel.model.approval import APPROVAL_KEYS, ApprovalMode, ApprovalRules
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.names import suggest
from evenkeel.model.outside_json import show
from evenkeel.model.settings import Settings
from evenkeel.windows.calendar import WindowCalendar
from evenkeel.windows.rules import BLACKOUT_KEYS, read_dates, read_rules, read_span

FILE_NAME = "evenkeel.toml"
SYSTEM_FOLDER = Path("/etc/evenkeel")
TOP_LEVEL_KEYS = ("default_cluster", "settings", "approval", "clusters")
TEXT_KEYS = (
    "zookeeper",
    "pulsar_root",
    "evenkeel_root",
    "configuration_zookeeper",
    "configuration_root",
    "zookeeper_security",
    "lake",
    "spark_master",
    "airflow_connection",
    "spark_connection",
)
ADDRESS_KEYS = ("zookeeper", "pulsar_root", "evenkeel_root", "configuration_zookeeper", "configuration_root")
CLUSTER_KEYS = (*TEXT_KEYS, "settings", "approval", "windows", "blackouts")
PLACEHOLDER_HOSTS = "localhost:2181"


@dataclass(frozen=True, slots=True)
class ClusterConfiguration:
    """What the file says about one cluster; what it does not say is None."""

    name: str
    zookeeper: str | None = None
    pulsar_root: str | None = None
    evenkeel_root: str | None = None
    configuration_zookeeper: str | None = None
    configuration_root: str | None = None
    zookeeper_security: Path | None = None
    lake: str | None = None
    spark_master: str | None = None
    airflow_connection: str | None = None
    spark_connection: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of this cluster over those of every cluster, as plain values."""
    approval: ApprovalRules | None = None
    """This cluster's own section, else that of every cluster; never a mixture of both."""
    windows: WindowCalendar = field(default_factory=WindowCalendar)
    """What the file itself says; `windows_on` adds the calendars."""
    freeze_calendars: tuple[Path, ...] = ()

    def windows_on(self, today: date) -> WindowCalendar:
        """The windows of this cluster, with the freeze calendars as they are on a day."""
        from evenkeel.windows.freeze_calendar import read_freezes

        freezes = tuple(freeze for file in self.freeze_calendars for freeze in read_freezes(file, today))
        return replace(self.windows, blackouts=(*self.windows.blackouts, *freezes))


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of one `evenkeel.toml`; without a file there are no clusters and no settings."""

    file: Path | None = None
    default_cluster: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    clusters: Mapping[str, ClusterConfiguration] = field(default_factory=dict)
    approval: ApprovalRules | None = None

    def approval_of(self, cluster: str) -> ApprovalRules:
        """Whose approvals count for a cluster; where the file does not say, none does."""
        section = self.find(cluster)
        return (self.approval if section is None else section.approval) or ApprovalRules()

    def find(self, cluster: str | None) -> ClusterConfiguration | None:
        return None if cluster is None else self.clusters.get(cluster)

    def require(self, cluster: str) -> ClusterConfiguration:
        """Return a cluster's part of the file; a name that is not in it is an error that lists the nearest ones."""
        found = self.find(cluster)
        if found is None:
            raise InputError(
                f"cluster {cluster!r} is not in {self.file}",
                suggest(cluster, self.clusters) or f"add [clusters.{cluster}] to the file",
            )
        return found


def find_configuration(given: Path | None, folder: Path, home: Path) -> Configuration:
    """Load the file that was given, or the only one in the usual places; two of those at once are refused.

    Which of two files applies would depend on the folder a command is started in, so the user has to choose.
    """
    if given is not None:
        return load_configuration(given)
    places = (folder, home / ".config" / "evenkeel", SYSTEM_FOLDER)
    found: list[Path] = []
    for file in (place / FILE_NAME for place in places):
        if file.is_file() and not any(file.samefile(other) for other in found):
            found.append(file)
    if len(found) > 1:
        raise InputError(
            f"found more than one configuration file ({' and '.join(map(str, found))})",
            "choose one with --config or EVENKEEL_CONFIG",
        )
    return load_configuration(found[0]) if found else Configuration()


def load_configuration(file: Path) -> Configuration:
    """Read and check a whole file; what is wrong is named with its key."""
    try:
        values = tomllib.loads(file.read_text())
    except OSError as error:
        raise InputError(f"cannot read the configuration file {file} ({error.strerror})", "check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is not TOML ({error})", "correct the file") from error
    _refuse_unknown(file, "", values, TOP_LEVEL_KEYS)
    folder = file.resolve().parent
    settings = _read_settings(file, "settings", _table(file, "settings", values.get("settings", {})), folder)
    approval = _read_approval(file, "approval", values.get("approval"), folder)
    clusters = {
        name: _read_cluster(file, name, _table(file, f"clusters.{name}", section), settings, folder)
        for name, section in _table(file, "clusters", values.get("clusters", {})).items()
    }
    clusters = {
        name: section if section.approval is not None else replace(section, approval=approval)
        for name, section in clusters.items()
    }
    default = _read_default(file, values.get("default_cluster"), clusters)
    return Configuration(file, default, settings, clusters, approval)


def load_settings(file: Path, below: Mapping[str, Any]) -> Settings:
    """Read a settings file; what it does not set is taken from the plain values below it."""
    settings = Settings.load(file)
    return Settings.from_json({**below, **tomllib.loads(file.read_text())}, str(file)) if below else settings


def _read_default(file: Path, value: Any, clusters: Mapping[str, ClusterConfiguration]) -> str | None:
    if value is None:
        return next(iter(clusters)) if len(clusters) == 1 else None
    if value not in clusters:
        raise InputError(
            f"{file}: default_cluster = {value!r} is not one of its clusters",
            suggest(str(value), clusters) or "add a [clusters.NAME] section",
        )
    return str(value)


def _read_cluster(
    file: Path, name: str, section: Mapping[str, Any], settings: Mapping[str, Any], folder: Path
) -> ClusterConfiguration:
    where = f"clusters.{name}"
    _refuse_unknown(file, f"{where}.", section, CLUSTER_KEYS)
    for key in TEXT_KEYS:
        if key in section and not (isinstance(section[key], str) and section[key]):
            raise InputError(f"{file}: {where}.{key} = {section[key]!r} is not text", "write it in quotes")
    text: dict[str, Any] = {key: section[key] for key in TEXT_KEYS if key in section}
    for key in (key for key in ADDRESS_KEYS if key.endswith("_root")):
        if key in text:
            text[key] = normalise_root(text[key])
    if "zookeeper_security" in text:
        text["zookeeper_security"] = folder / Path(text["zookeeper_security"]).expanduser()
    if "lake" in text and "://" not in text["lake"]:
        text["lake"] = str(folder / Path(text["lake"]).expanduser())
    _check_addresses(file, name, text)
    own = _read_settings(file, f"{where}.settings", section.get("settings", {}), folder, settings)
    approval = _read_approval(file, f"{where}.approval", section.get("approval"), folder)
    windows, calendars = _read_windows(file, where, section, folder)
    return ClusterConfiguration(
        name,
        **text,
        settings={**settings, **own},
        approval=approval,
        windows=windows,
        freeze_calendars=calendars,
    )


def _read_windows(
    file: Path, where: str, section: Mapping[str, Any], folder: Path
) -> tuple[WindowCalendar, tuple[Path, ...]]:
    """A cluster's windows and blackouts; rules that never open a window, or contradict each other, are refused."""
    place = f"{where}.blackouts"
    blackouts = _table(file, place, section.get("blackouts", {}))
    _refuse_unknown(file, f"{place}.", blackouts, BLACKOUT_KEYS)
    files = blackouts.get("calendars", [])
    if not isinstance(files, list) or not all(isinstance(each, str) and each for each in files):
        raise InputError(
            f"{file}: {place}.calendars = {show(files)} is not a list of paths", 'write it as ["freeze.ics"]'
        )
    try:
        distance = read_span(blackouts.get("min_distance", "0s"))
    except ValueError:
        given = show(blackouts["min_distance"])
        raise InputError(f"{file}: {place}.min_distance = {given} is not a span", 'write it as "20h"') from None
    try:
        windows = WindowCalendar(
            read_rules(f"{where}.windows", section.get("windows", [])),
            read_dates(f"{place}.dates", blackouts.get("dates", [])),
            distance,
        )
        windows.require_sound()
    except InputError as error:
        raise InputError(f"{file}: {error.cause}", error.remedy) from error
    return windows, tuple(folder / Path(each).expanduser() for each in files)


def normalise_root(path: str) -> str:
    """Write a root path the way connections have it: the root of ZooKeeper itself is the empty prefix."""
    return "" if path == "/" else path


def _check_addresses(file: Path, name: str, text: Mapping[str, Any]) -> None:
    """Refuse hosts and roots that no connection could have, each with its key."""
    # The name alone first, so that no key is blamed for it.
    given: list[dict[str, Any]] = [{}, *({key: text[key]} for key in ADDRESS_KEYS if key in text)]
    for addresses in given:
        try:
            ClusterConnection(name, **{"zookeeper": PLACEHOLDER_HOSTS, **addresses})
        except InputError as error:
            where = ".".join(["clusters", name, *addresses])
            raise InputError(f"{file}: {where}: {error.cause}", error.remedy) from error


def _read_settings(
    file: Path, where: str, value: Any, folder: Path, below: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Check settings as part of all that will apply, and let their files start at the folder of this one."""
    own = {
        key: str(folder / Path(each).expanduser()) if key.endswith("_file") and isinstance(each, str) else each
        for key, each in _table(file, where, value).items()
    }
    origin = f"{file} [{where}]"
    try:
        Settings.from_json({**(below or {}), **own}, origin)
    except InputError as error:
        # A range that is not kept names its setting, but not the file.
        cause = error.cause if str(file) in error.cause else f"{origin}: {error.cause}"
        raise InputError(cause, error.remedy) from error
    return own


def read_approval_rules(place: str, section: Mapping[str, Any], folder: Path) -> ApprovalRules:
    """Read what a section says about approvals; relative paths start at a folder. What is wrong is named by its key."""
    for key in section:
        if key not in APPROVAL_KEYS:
            raise InputError(f"{place}: unknown key {key}", suggest(key, APPROVAL_KEYS))
    for key in ("approvers", "revoked_keys", "people"):
        value = section.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise InputError(f"{place}: {key} = {show(value)} is not a list of texts", f'write it as {key} = ["…"]')
    signing_key, unsigned = section.get("signing_key"), section.get("unsigned", False)
    if signing_key is not None and not (isinstance(signing_key, str) and signing_key):
        raise InputError(f"{place}: signing_key = {show(signing_key)} is not a path", "write it in quotes")
    if not isinstance(unsigned, bool):
        raise InputError(f"{place}: unsigned = {show(unsigned)} is not true or false", "write unsigned = true")
    if unsigned and section.get("approvers"):
        raise InputError(f"{place} has approvers and unsigned = true", "leave one of them out")
    mode = section.get("mode", ApprovalMode.PERSON)
    if mode not in list(ApprovalMode):
        raise InputError(f"{place}: mode = {show(mode)} is not a mode", suggest(str(mode), list(ApprovalMode)))
    return ApprovalRules(
        tuple(folder / Path(each).expanduser() for each in section.get("approvers", [])),
        tuple(section.get("revoked_keys", [])),
        None if signing_key is None else folder / Path(signing_key).expanduser(),
        unsigned,
        ApprovalMode(mode),
        tuple(section.get("people", [])),
    )


def _read_approval(file: Path, where: str, value: Any, folder: Path) -> ApprovalRules | None:
    return None if value is None else read_approval_rules(f"{file} [{where}]", _table(file, where, value), folder)


def _table(file: Path, key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{file}: {key} = {value!r} is not a table", f"write it as [{key}]")
    return value


def _refuse_unknown(file: Path, prefix: str, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in values:
        if key not in known:
            raise InputError(f"{file}: unknown key {prefix}{key}", _place_of(key) or suggest(key, known))


def _place_of(key: str) -> str:
    """Say where a key belongs that is known, but in another section."""
    if key in {each.name for each in fields(Settings)}:
        return "it is a setting, so write it under [settings] or [clusters.NAME.settings]"
    if key in CLUSTER_KEYS:
        return "write it under [clusters.NAME]"
    return "write it above all sections" if key == "default_cluster" else ""
