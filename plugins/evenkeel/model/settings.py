"""Every setting, with its meaning and default; keys carry PIP-192's names in snake case where it has one."""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel.model.errors import InputError


def _setting(default: Any, meaning: str, at_least: float | None = None, at_most: float | None = None) -> Any:
    metadata = {"meaning": meaning, "at_least": at_least, "at_most": at_most}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the brokers of some hosts can carry, for clusters that report percentages only."""

    hosts: str
    cores: float
    nic_gbps: float

    def __post_init__(self) -> None:
        try:
            re.compile(self.hosts)
        except re.error as error:
            raise InputError(
                f"capacity: hosts = {self.hosts!r} is not a regular expression ({error})", "correct the pattern"
            ) from error
        if not (0 < self.cores < math.inf and 0 < self.nic_gbps < math.inf):
            raise InputError(f"capacity of {self.hosts!r} is not positive", "give cores and nic_gbps above zero")

    def matches(self, broker_id: str) -> bool:
        return re.fullmatch(self.hosts, broker_id.rpartition(":")[0]) is not None


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of snapshot, plan and apply."""

    # what a good placement is
    tolerance: float = _setting(
        0.05, "width of the band: a broker may carry (1 + tolerance) × the lowest reachable peak", 0.0, 10.0
    )
    broker_overloaded_threshold_percentage: float = _setting(
        85.0, "overload line: a broker above it is relieved first, in percent of its limit", 1.0, 100.0
    )
    shedding_excluded_namespaces: tuple[str, ...] = _setting((), "namespaces whose bundles are never moved")

    # budgets, all hard
    max_steps: int = _setting(5_000, "most steps that a plan may have", 0)
    canary_steps: int = _setting(1, "steps in the first wave", 1)
    wave_steps: int = _setting(50, "most steps in any later wave", 1)

    # what counts as knowing the load
    broker_load_data_ttl_in_seconds: float = _setting(
        1800.0, "age beyond which a broker's load report is stale and blocks planning", 1.0
    )
    history_days: float = _setting(7.0, "how far back load profiles look", 0.0, 3_650.0)
    capacity: tuple[Capacity, ...] = _setting((), "cores and NIC speed by host pattern, where Pulsar gives percentages")

    # when a bundle is a split candidate (PIP-192)
    namespace_bundle_max_topics: int = _setting(1_000, "split a bundle with more topics", 1)
    namespace_bundle_max_sessions: int = _setting(
        1_000, "split a bundle with more producers and consumers; 0 = never", 0
    )
    namespace_bundle_max_msg_rate: float = _setting(30_000.0, "split a bundle with more messages per second", 0.0)
    namespace_bundle_max_bandwidth_mbytes: float = _setting(100.0, "split a bundle with more MiB per second", 0.0)
    namespace_bundle_split_condition_hit_count_threshold: int = _setting(
        3, "a bundle must meet a condition in more snapshots in a row than this", 0
    )
    max_number_of_bundles_to_split_per_cycle: int = _setting(10, "most splits in a plan", 0)
    namespace_maximum_bundles: int = _setting(128, "no namespace is split beyond this many bundles", 1)

    # what a move costs its clients
    transfer_hand_over_ms: int = _setting(500, "expected time from the cut of a transfer until the new owner serves", 1)
    unload_hand_over_ms: int = _setting(2_000, "expected time from the cut of an unload until a new owner serves", 1)

    # how long a plan may be applied
    plan_expires_after_s: int = _setting(14_400, "seconds after the snapshot at which a plan expires", 1)

    # the guarded writer
    session_timeout_s: float = _setting(30.0, "time-out of the writer's ZooKeeper session", 1.0)
    in_flight_steps: int = _setting(8, "most steps under way at a time", 1)
    step_deadline_s: float = _setting(100.0, "time within which a step must reach its end state", 1.0)
    clock_offset_limit_s: float = _setting(
        5.0, "largest offset from ZooKeeper's clock with which the writer writes", 0.1
    )
    verify_wait_s: float = _setting(
        20.0, "how long verification waits for load reports that are newer than the run", 0.0
    )
    admin_call_timeout_s: float = _setting(60.0, "time-out of a call to a broker's admin API", 1.0)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any], origin: str = "settings") -> Settings:
        """Build settings from plain values; an unknown key or a wrong value is refused by name."""
        known = {field.name: field for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise InputError(f"{origin}: unknown key {unknown[0]!r}", "see `evenkeel settings` for all keys")
        hints = typing.get_type_hints(cls)
        converted = {key: _convert(key, hints[key], value, origin) for key, value in values.items()}
        return cls(**converted)

    @classmethod
    def load(cls, file: Path) -> Settings:
        try:
            values = tomllib.loads(file.read_text())
        except OSError as error:
            raise InputError(f"cannot read the settings {file} ({error.strerror})", "check the path") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{file} is not TOML ({error})", "correct the file") from error
        return cls.from_json(values, str(file))


@dataclass(frozen=True, slots=True)
class SettingDescription:
    """What `evenkeel settings` prints of a setting."""

    key: str
    default: Any
    meaning: str


def describe_settings() -> list[SettingDescription]:
    """All settings in their order, with default and meaning."""
    return [
        SettingDescription(field.name, field.default, field.metadata["meaning"])
        for field in dataclasses.fields(Settings)
    ]


def _convert(key: str, hint: Any, value: Any, origin: str) -> Any:
    """Turn a TOML or JSON value into the setting's type, without guessing."""
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (float, int) and isinstance(value, hint) and not isinstance(value, bool):
        return value
    if hint == tuple[str, ...] and isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if hint == tuple[Capacity, ...] and isinstance(value, list | tuple):
        return tuple(_convert_capacity(entry, origin) for entry in value)
    raise InputError(f"{origin}: {key} = {value!r} has the wrong type", "see `evenkeel settings` for the default")


def _convert_capacity(entry: Any, origin: str) -> Capacity:
    try:
        return Capacity(str(entry["hosts"]), float(entry["cores"]), float(entry["nic_gbps"]))
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"{origin}: capacity entry {entry!r} is not complete", "give each [[capacity]] hosts, cores and nic_gbps"
        ) from error


def _check(field: dataclasses.Field[Any], value: Any) -> None:
    low, high = field.metadata["at_least"], field.metadata["at_most"]
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{field.name} = {value} is no number", "choose a finite value")
    if low is not None and value < low:
        raise InputError(f"{field.name} = {value} is below {low}", "choose a larger value")
    if high is not None and value > high:
        raise InputError(f"{field.name} = {value} is above {high}", "choose a smaller value")
