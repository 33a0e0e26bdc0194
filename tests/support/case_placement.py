"""Runs cases of placement: the strategies that choose a broker, and the filters that go before them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenkeel.model.policies import IsolationPolicy, Policies
from evenkeel.pulsar_rules.broker_load import ResourceUsages, smooth, weighted_usage_with_heap
from evenkeel.pulsar_rules.eligibility import Eligibility, host_of
from evenkeel.pulsar_rules.placement import (
    BrokerFacts,
    PlacementRequest,
    find_isolated_or_shared,
    keep_below_topic_limit,
    keep_latest_version,
    keep_least_anti_affinity,
    least_resource_usage_extensible,
)
from support.case_reading import Case, Comparison, equal_usages, read_stats, read_usage, read_usages, with_config
from support.pulsar_reference.placement import (
    PlacementLoad,
    keep_least_of_namespace,
    least_long_term_message_rate,
    least_resource_usage_modular,
    may_unload_anti_affinity,
)

RESOURCES = {
    "cpu": "cpu",
    "memory": "memory",
    "directMemory": "direct_memory",
    "bandwidthIn": "bandwidth_in",
    "bandwidthOut": "bandwidth_out",
}


def run_least_message_rate(case: Case) -> Comparison:
    drawn = []
    for step in case.rows:
        settings = with_config(case.settings, step.get("config", {}))
        loads = {broker: _read_placement_load(step, broker) for broker in _candidates(case, step)}
        drawn.append(least_long_term_message_rate(loads, loads, settings))
    return _compare_draws(case, drawn)


def _read_placement_load(step: Mapping[str, Any], broker: str) -> PlacementLoad:
    single = {field: read_usage(step.get(name, {}).get(broker)) for name, field in RESOURCES.items()}
    whole = step.get("resources", {}).get(broker)
    rates = [step.get(name, {}).get(broker, 0) for name in ("longTermMsgRateIn", "longTermMsgRateOut")]
    return PlacementLoad(
        usages=ResourceUsages(**single) if whole is None else read_usages(whole),
        long_term_msg_rate=float(sum(rates)),
        preallocated_msg_rate=_read_preallocated(step.get("preallocated", {}).get(broker)),
    )


def _read_preallocated(value: Any) -> float:
    """The message rate of bundles on their way to a broker: a number, or bundles with their rates."""
    if value is None or isinstance(value, int | float):
        return float(value or 0)
    bundles = value.values() if isinstance(value, Mapping) else value
    return sum(read_stats(each.get("longTerm", each)).msg_rate for each in bundles)


def run_least_usage_modular(case: Case) -> Comparison:
    drawn = []
    history: Mapping[str, float] = {}
    warm_up = [{"usage": case.input["warm_up"], "candidates": list(case.input["warm_up"])}]
    for step in [*(warm_up if case.input.get("warm_up") else []), *case.input["steps"]]:
        settings = with_config(case.settings, step.get("config", {}))
        idle = {*step.get("no_bundles", ()), *step.get("no_messages", ())}
        loads = {
            broker: PlacementLoad(equal_usages(usage), has_bundles_and_messages=broker not in idle)
            for broker, usage in step["usage"].items()
        }
        draw = least_resource_usage_modular(_candidates(case, step), loads, history, settings)
        history = draw.usages
        drawn.append(draw.brokers)
    return _compare_draws(case, drawn[1:] if case.input.get("warm_up") else drawn)


def run_least_usage_extensible(case: Case) -> Comparison:
    drawn = []
    averages: dict[str, float] = {}
    for step in case.input["steps"]:
        settings = with_config(case.settings, step.get("config", {}))
        share = settings.history_resource_percentage
        for broker, usage in step.get("set", {}).items():
            averages[broker] = weighted_usage_with_heap(equal_usages(usage), settings)
        for broker, usage in step.get("update", {}).items():
            load = weighted_usage_with_heap(equal_usages(usage), settings)
            averages[broker] = smooth(averages.get(broker), load, share)
        for broker in step.get("no_load_data", ()):
            averages.pop(broker, None)
        drawn.append(least_resource_usage_extensible(_candidates(case, step), averages, settings))
    return _compare_draws(case, drawn)


def _candidates(case: Case, step: Mapping[str, Any]) -> list[str]:
    return list(step.get("candidates", case.input.get("candidates", ())))


def _compare_draws(case: Case, drawn: list[list[str]]) -> Comparison:
    comparison = Comparison()
    allowed = case.expected.get("selected_in") or [[each] for each in case.expected["selected"]]
    for number, (expected, found) in enumerate(zip(allowed, drawn, strict=True), start=1):
        comparison.within(f"step {number}: selected", expected, found)
    return comparison


def run_topic_limit(case: Case) -> Comparison:
    comparison = Comparison()
    for label, row, expected in _rows(case, "eligible"):
        found = keep_below_topic_limit(list(row["topics"]), row["topics"], case.settings.broker_max_topics)
        comparison.equal(label, sorted(expected), sorted(found))
    return comparison


def run_version(case: Case) -> Comparison:
    comparison = Comparison()
    for label, row, expected in _rows(case, "eligible"):
        names = list(row["versions"])
        found = keep_latest_version(names, row["versions"]) if case.settings.prefer_later_versions else names
        comparison.equal(label, sorted(expected), sorted(found))
    return comparison


def run_isolation(case: Case) -> Comparison:
    comparison = Comparison()
    for label, row, expected in _rows(case, "eligible"):
        given = {**case.input, **row}
        flags = row.get("brokers", {})
        brokers = list(flags or row["available"])
        facts = {
            name: BrokerFacts(takes_persistent=takes[0], takes_non_persistent=takes[1])
            for name in brokers
            for takes in [flags[name] if flags else (True, True)]
        }
        namespace = given.get("namespace", "tenant/namespace")
        eligibility = Eligibility(brokers, _read_isolation(given, namespace, brokers))
        request = PlacementRequest(namespace, is_non_persistent=bool(row.get("bundle_has_non_persistent")))
        found = find_isolated_or_shared(brokers, facts, eligibility, request)
        comparison.equal(label, sorted(expected), sorted(found))
    return comparison


def _read_isolation(given: Mapping[str, Any], namespace: str, brokers: list[str]) -> Policies:
    if given.get("namespace_has_isolation_policy", "primary" in given):
        policy = IsolationPolicy(
            "policy",
            (namespace,),
            tuple(given.get("primary", ())),
            tuple(given.get("secondary", ())),
            int(given.get("min_limit", 1)),
        )
        return Policies((policy,))
    shared = given.get("shared")
    if given.get("all_brokers_shared", True) or shared is None:
        return Policies()
    claimed = tuple(host_of(name) for name in brokers if host_of(name) not in shared and name not in shared)
    return Policies((IsolationPolicy("others", ("another-tenant/another-namespace",), claimed, (), 1),))


def run_anti_affinity(case: Case) -> Comparison:
    comparison = Comparison()
    for label, row, expected in _rows(case, "eligible"):
        given = {**case.input, **row}
        domains = given.get("domains") if case.settings.failure_domains_enabled else None
        found = keep_least_anti_affinity(given["brokers"], given["owned"], domains)
        comparison.equal(label, sorted(expected), sorted(found))
    return comparison


def run_anti_affinity_unload(case: Case) -> Comparison:
    comparison = Comparison()
    for label, row, expected in _rows(case, "may_unload"):
        given = {**case.input, **row}
        found = may_unload_anti_affinity(given["current"], given["candidates"], given["owned"])
        comparison.equal(label, expected, found)
    return comparison


def run_even_spread(case: Case) -> Comparison:
    comparison = Comparison()
    for label, row, expected in _rows(case, "left"):
        found = keep_least_of_namespace(row["candidates"], row["counts"])
        comparison.equal(label, sorted(expected), sorted(found))
    return comparison


def _rows(case: Case, key: str) -> list[tuple[str, Mapping[str, Any], Any]]:
    """Each row with what it expects, which stands in the row itself or, for a single one, in the case."""
    stated = case.expected.get(key)
    return [(f"row {number}: {key}", row, row.get(key, stated)) for number, row in enumerate(case.rows, start=1)]


ADAPTERS = {
    "LeastLongTermMessageRate": run_least_message_rate,
    "LeastResourceUsageWithWeight": run_least_usage_modular,
    "extensions.LeastResourceUsageWithWeight": run_least_usage_extensible,
    "BrokerMaxTopicCountFilter": run_topic_limit,
    "BrokerVersionFilter": run_version,
    "BrokerIsolationPoliciesFilter": run_isolation,
    "filterAntiAffinityGroupOwnedBrokers": run_anti_affinity,
    "shouldAntiAffinityNamespaceUnload": run_anti_affinity_unload,
    "removeMostServicingBrokersForNamespace": run_even_spread,
}
