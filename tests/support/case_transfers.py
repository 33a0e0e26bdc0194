"""Runs cases of TransferShedder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.broker_load import weighted_usage_with_heap
from evenkeel.pulsar_rules.eligibility import namespace_of
from evenkeel.pulsar_rules.placement import FilteredBrokers, can_transfer, may_shed_with_policies
from evenkeel.pulsar_rules.transfer_shedder import (
    BrokerLoad,
    LeaderView,
    LoadStats,
    ReportedBundle,
    ShedOutcome,
    shed_transfers,
)
from support.case_extensible import policy_test
from support.case_reading import ROUNDING, Case, Comparison, names_of, read_stats, read_usages

NOW_MS = 1_790_000_000_000


def run_load_stats(case: Case) -> Comparison:
    comparison = Comparison()
    loads = [float(percent) / 100 for percent in case.input["loads_percent"]]
    stats = LoadStats.of(loads, [])
    tolerance = float(case.expected.get("tolerance", ROUNDING))
    for key, found in {"avg": stats.average, "std": stats.std}.items():
        if key in case.expected:
            comparison.close(key, case.expected[key], found, tolerance)
    return comparison


def run_policy_gate(case: Case) -> Comparison:
    comparison = Comparison()
    columns = case.input.get("columns") or (
        ["hasIsolationPolicy", "hasAntiAffinityGroup", "loadBalancerSheddingBundlesWithPoliciesEnabled", "may"]
    )
    for number, row in enumerate(case.input["rows"], start=1):
        fields = dict(zip(columns, row, strict=True))
        found = may_shed_with_policies(
            fields["hasIsolationPolicy"],
            fields["hasAntiAffinityGroup"],
            fields["loadBalancerSheddingBundlesWithPoliciesEnabled"],
        )
        comparison.equal(f"row {number}", row[-1], found)
    return comparison


def run_transfer_shedder(case: Case) -> Comparison:
    comparison = Comparison()
    hits, counted = 0, Counter[tuple[str, str]]()
    for given, expected, label in case.steps():
        view = _read_view(given, case.settings)
        outcome = shed_transfers(view, hits, case.settings, NOW_MS)
        hits = outcome.hits
        if not outcome.unloads:
            counted[outcome.label, outcome.reason] += 1
        _compare_decisions(comparison, label, expected, outcome, view)
        _compare_figures(comparison, label, expected, outcome, counted)
    return comparison


def _read_view(given: Mapping[str, Any], settings: PulsarSettings) -> LeaderView:
    loads = {broker: _read_load(fields, settings) for broker, fields in given["brokers"].items() if fields is not None}
    top = given.get("top_bundles", {})
    live = given.get("available_brokers", list(loads))
    return LeaderView(
        live_brokers=None if given.get("available_brokers_error") else live,
        loads=loads,
        top_bundles=lambda broker: _read_report(top.get(broker)),
        recently_unloaded_bundles=names_of(given.get("recently_unloaded_bundles")),
        broker_unloaded_at_ms={
            broker: _read_unloaded_at(when, loads[broker].updated_at_ms)
            for broker, when in given.get("recently_unloaded_brokers", {}).items()
            if broker in loads
        },
        is_owner=_owner_test(given),
        can_transfer=_transfer_test(given, live, settings),
    )


def _read_load(fields: Mapping[str, Any], settings: PulsarSettings) -> BrokerLoad:
    throughput = float(fields.get("msgThroughputIn", 0)) + float(fields.get("msgThroughputOut", 0))
    computed = weighted_usage_with_heap(read_usages(fields.get("resources", {})), settings)
    load = float(fields.get("weightedMaxEMA", computed))
    age = fields.get("updatedAtAgeMs", 0)
    return BrokerLoad(
        load=computed if abs(load - computed) < ROUNDING else load,
        throughput=throughput,
        throughput_average=float(fields.get("msgThroughputEMA", throughput)),
        updated_at_ms=0 if isinstance(age, str) else NOW_MS - int(age),
    )


def _read_report(bundles: Sequence[Mapping[str, Any]] | None) -> list[ReportedBundle] | None:
    if bundles is None:
        return None
    return [ReportedBundle(each["bundle"], read_stats(each).throughput) for each in bundles]


def _read_unloaded_at(when: Any, updated_at_ms: int) -> int:
    """When a broker was unloaded: so long before its report, or so long ago."""
    if isinstance(when, Mapping) and "unloaded_ms_before_load_update" not in when:
        return NOW_MS - int(next(iter(when.values())))
    before_report = when["unloaded_ms_before_load_update"] if isinstance(when, Mapping) else when
    return updated_at_ms - int(before_report)


def _owner_test(given: Mapping[str, Any]) -> Callable[[str, str], bool]:
    owners = given.get("owners")
    if isinstance(owners, Mapping):
        return lambda bundle, broker: owners.get(bundle) == broker
    return lambda bundle, broker: not given.get("owner_check")


def _transfer_test(
    given: Mapping[str, Any], live: Sequence[str], settings: PulsarSettings
) -> Callable[[str, str, str], bool]:
    by_namespace, by_bundle = given.get("eligibility"), given.get("eligibility_by_bundle")
    has_policies = policy_test(given)

    def test(bundle: str, source: str, destination: str) -> bool:
        namespace = namespace_of(bundle)
        allowed: Any = "all"
        for table, key in ((by_namespace, namespace), (by_bundle, bundle)):
            if table is not None:
                allowed = table.get(key, table.get("*", "all"))
        left = live if allowed == "all" else [broker for broker in live if allowed != "error" and broker in allowed]
        filtered = FilteredBrokers(list(left), ("the filter fails",) if allowed == "error" else ())
        is_ruled = allowed != "all" or has_policies(namespace)
        return can_transfer(source, destination, filtered, is_ruled, False, settings)

    return test


def _compare_decisions(
    comparison: Comparison, label: str, expected: Mapping[str, Any], outcome: ShedOutcome, view: LeaderView
) -> None:
    found = [(each.source, each.bundle, each.destination, str(each.reason)) for each in outcome.unloads]
    wanted = [(each["source"], each["bundle"], each["dest"], each["reason"]) for each in expected.get("decisions", ())]
    match expected.get("match", "set_equal"):
        case "set_equal":
            comparison.equal(f"{label}decisions", sorted(wanted, key=str), sorted(found, key=str))
        case "any_dest":
            bare = [(source, bundle, reason) for source, bundle, _, reason in found]
            comparison.equal(f"{label}decisions", [(each[0], each[1], each[3]) for each in wanted], bare)
            for (_, _, text, _), (_, _, destination, _) in zip(wanted, found, strict=False):
                number = re.search(r"load ([0-9.]+)", str(text))
                if number and destination:
                    load = view.loads[destination].load
                    comparison.close(f"{label}load of {destination}", float(number[1]), load, ROUNDING)
        case "count_by_direction":
            directions = Counter((source, destination, reason) for source, _, destination, reason in found)
            comparison.equal(
                f"{label}directions",
                {(each["source"], each["dest"], each["reason"]): each["count"] for each in expected["directions"]},
                dict(directions),
            )
        case "count":
            comparison.equal(f"{label}count", expected["count"], len(found))
        case other:
            comparison.equal(f"{label}match", "a known way to compare", other)


def _compare_figures(
    comparison: Comparison,
    label: str,
    expected: Mapping[str, Any],
    outcome: ShedOutcome,
    counted: Mapping[tuple[str, str], int],
) -> None:
    tolerance = float(expected.get("tolerance", ROUNDING))
    figures = {
        "loadAvg": outcome.average,
        "loadStd": outcome.std,
        "avgAfter": outcome.average,
        "stdAfter": outcome.std_after,
    }
    for key in figures.keys() & expected.keys():
        comparison.close(f"{label}{key}", expected[key], figures[key], tolerance)
    if "counter" in expected:
        wanted = expected["counter"]
        comparison.equal(f"{label}counter", (wanted["label"], wanted["reason"]), (outcome.label, outcome.reason))
        if "cumulative_count" in expected:
            total = counted.get((outcome.label, outcome.reason), 0)
            comparison.equal(f"{label}cumulative_count", expected["cumulative_count"], total)


ADAPTERS = {
    "TransferShedder": run_transfer_shedder,
    "TransferShedder.LoadStats": run_load_stats,
    "TransferShedder.policyGate": run_policy_gate,
}
