"""Reads a case of Pulsar's behaviour: its settings, its loads, and what to compare with what it expects."""

from __future__ import annotations

import dataclasses
import math
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.broker_load import ResourceUsage, ResourceUsages
from support.pulsar_reference.reports import BundleStats

# Settings of Pulsar that decide whether an algorithm runs, not what it decides.
SWITCHES = frozenset(
    {
        "loadBalancerEnabled",
        "loadBalancerSheddingEnabled",
        "loadBalancerAutoBundleSplitEnabled",
        "loadBalancerAutoUnloadSplitBundlesEnabled",
        "loadManagerClassName",
        "defaultNamespaceBundleSplitAlgorithm",
    }
)
# Ready-made averages are written without Pulsar's 32-bit rounding; this close, they mean the computed value.
ROUNDING = 1e-5
_KINDS = typing.get_type_hints(PulsarSettings)


@dataclass(frozen=True, slots=True)
class Case:
    """One input of a Pulsar algorithm, and what the real class made of it."""

    id: str
    algorithm: str
    config: Mapping[str, Any]
    input: Mapping[str, Any]
    expected: Mapping[str, Any]

    @property
    def settings(self) -> PulsarSettings:
        return read_settings(self.config)

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows or steps of the input; the input itself where it has neither."""
        return self.input.get("rows") or self.input.get("steps") or [self.input]

    def steps(self) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], str]]:
        """Successive calls: input, expectation and a label. An input without steps is given each time anew."""
        if "steps" not in self.expected:
            yield self.input, self.expected, ""
            return
        given = self.input.get("steps") or [{}] * len(self.expected["steps"])
        for number, (step, expected) in enumerate(zip(given, self.expected["steps"], strict=True), start=1):
            yield {**self.input, **step}, expected, f"step {number}: "


@dataclass(slots=True)
class Comparison:
    """Collects where an outcome differs from what was expected."""

    differences: list[str] = field(default_factory=list)
    compared: int = 0

    def equal(self, what: str, expected: Any, found: Any) -> None:
        self.compared += 1
        if expected != found:
            self.differences.append(f"{what}: expected {expected!r}, came {found!r}")

    def close(self, what: str, expected: float, found: float, tolerance: float) -> None:
        self.compared += 1
        if not math.isclose(expected, found, rel_tol=0, abs_tol=max(tolerance, 1e-12)):
            self.differences.append(f"{what}: expected {expected!r} within {tolerance}, came {found!r}")

    def within(self, what: str, expected: Sequence[Any], found: Sequence[Any]) -> None:
        """Whatever is drawn must be one of those expected."""
        self.compared += 1
        if not found or not set(found) <= set(expected):
            self.differences.append(f"{what}: expected one of {list(expected)!r}, came one of {list(found)!r}")


def setting_key(name: str) -> str:
    """Evenkeel's key of a Pulsar setting: without its prefix, in snake case."""
    bare = re.sub(r"^loadBalancer?(?=[A-Z])", "", name).replace("Bandwith", "Bandwidth")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", bare).lower()


def read_settings(config: Mapping[str, Any]) -> PulsarSettings:
    """Settings from Pulsar's names; one that is not known is refused."""
    values = {setting_key(name): value for name, value in config.items() if name not in SWITCHES and value is not None}
    return PulsarSettings.from_json({key: _as_kind(key, value) for key, value in values.items()}, "config")


def with_config(settings: PulsarSettings, config: Mapping[str, Any]) -> PulsarSettings:
    """The same settings with a step's own changes."""
    changed = read_settings(config)
    return dataclasses.replace(settings, **{setting_key(name): getattr(changed, setting_key(name)) for name in config})


def _as_kind(key: str, value: Any) -> Any:
    """A whole number for a setting that is one, however the file writes it."""
    kind = _KINDS.get(key)
    is_whole = kind is int or (typing.get_args(kind) and typing.get_args(kind)[0] is int)
    return int(value) if is_whole and isinstance(value, float) and value.is_integer() else value


def read_usage(value: Any) -> ResourceUsage:
    """A resource as [usage, limit] or {"usage": …, "limit": …}; absent counts as unused."""
    if value is None:
        return ResourceUsage()
    usage, limit = (value["usage"], value["limit"]) if isinstance(value, Mapping) else value
    return ResourceUsage(float(usage), float(limit))


def read_usages(resources: Mapping[str, Any]) -> ResourceUsages:
    return ResourceUsages(
        cpu=read_usage(resources.get("cpu")),
        memory=read_usage(resources.get("memory")),
        direct_memory=read_usage(resources.get("directMemory")),
        bandwidth_in=read_usage(resources.get("bandwidthIn")),
        bandwidth_out=read_usage(resources.get("bandwidthOut")),
    )


def equal_usages(percent: float) -> ResourceUsages:
    """The same percentage of all five resources."""
    return ResourceUsages(*(ResourceUsage(float(percent), 100.0) for _ in range(5)))


def read_stats(fields: Mapping[str, Any]) -> BundleStats:
    return BundleStats(
        msg_rate_in=float(fields.get("msgRateIn", 0)),
        msg_rate_out=float(fields.get("msgRateOut", 0)),
        throughput_in=float(fields.get("msgThroughputIn", 0)),
        throughput_out=float(fields.get("msgThroughputOut", 0)),
        topics=int(fields.get("topics", 0)),
        producers=int(fields.get("producerCount", 0)),
        consumers=int(fields.get("consumerCount", 0)),
        cache_size=int(fields.get("cacheSize", 0)),
    )


def names_of(value: Any) -> frozenset[str]:
    """The names in a list, or the keys of a map."""
    return frozenset(value or ())
