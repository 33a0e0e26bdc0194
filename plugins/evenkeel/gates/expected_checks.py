"""Which checks a gate makes in this version, so that a stored verdict can be held against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from evenkeel.gates.plan_rules import NO_WORSE
from evenkeel.gates.suites import read_suite
from evenkeel.model.canonical import digest
from evenkeel.model.plan import BY_HAND_STRATEGIES
from evenkeel.model.settings import Settings
from evenkeel.model.verdict import ExpectedCheck, Gate, Severity

PLAN_SUITES = ("plan", "plan_violations", "plan_steps", "plan_brokers")
SNAPSHOT_SUITES = ("snapshot_brokers", "snapshot_bundles", "snapshot_policies")


def expect_of_plan(strategy: str) -> Gate:
    """The gate of a plan; its parameters are the plan's own settings, which the plan id stands for."""
    gate = _read_gate(PLAN_SUITES, {})
    if strategy not in BY_HAND_STRATEGIES:
        return gate
    # A person who chose the steps may make the balance worse, and is told so before the yes.
    checks = (replace(each, severity=Severity.WARNING) if each.name == NO_WORSE else each for each in gate.checks)
    return replace(gate, checks=tuple(checks))


def expect_of_snapshot(settings: Settings) -> Gate:
    """The gate of a snapshot; what it finds depends on the age that it allows a report."""
    return _read_gate(SNAPSHOT_SUITES, {"broker_load_data_ttl_in_seconds": settings.broker_load_data_ttl_in_seconds})


def _read_gate(names: Iterable[str], parameters: Mapping[str, Any]) -> Gate:
    suites = {name: read_suite(name) for name in names}
    return Gate(
        {name: digest({"suite": suite, "parameters": parameters}) for name, suite in suites.items()},
        tuple(
            ExpectedCheck(name, entry["type"], Severity(entry["severity"]))
            for name, suite in suites.items()
            for entry in suite["expectations"]
        ),
    )
