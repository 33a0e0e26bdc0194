"""Runs cases of the modular manager: its four shedders and its split task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.threshold_shedder import Unloads, shed_by_threshold
from support.case_reading import Case, Comparison, names_of, read_stats, read_usages
from support.pulsar_reference.shedders import (
    AvgHits,
    ModularBroker,
    ModularCluster,
    Traffic,
    shed_overload,
    shed_pairs,
    shed_uniformly,
    view_of,
)
from support.pulsar_reference.splits import find_modular_splits

Decide = Callable[[ModularCluster, PulsarSettings], tuple[Unloads, Mapping[str, str]]]


def run_threshold(case: Case) -> Comparison:
    history: dict[str, float] = {}

    def decide(cluster: ModularCluster, settings: PulsarSettings) -> tuple[Unloads, Mapping[str, str]]:
        outcome = shed_by_threshold(view_of(cluster, settings), history, settings)
        history.update(outcome.usages)
        return outcome.unloads, {}

    return _run(case, decide)


def run_overload(case: Case) -> Comparison:
    return _run(case, lambda cluster, settings: (shed_overload(cluster, settings), {}))


def run_uniform(case: Case) -> Comparison:
    return _run(case, lambda cluster, settings: (shed_uniformly(cluster, settings), {}))


def run_avg(case: Case) -> Comparison:
    hits = [AvgHits()]

    def decide(cluster: ModularCluster, settings: PulsarSettings) -> tuple[Unloads, Mapping[str, str]]:
        outcome = shed_pairs(cluster, hits[-1], settings)
        hits.append(outcome.hits)
        return outcome.unloads, outcome.destinations

    return _run(case, decide)


def run_split_task(case: Case) -> Comparison:
    comparison = Comparison()
    counts = case.input.get("namespace_bundle_count", {})
    found = find_modular_splits(
        {
            broker: {bundle: read_stats(stats) for bundle, stats in fields["lastStats"].items()}
            for broker, fields in case.input["brokers"].items()
        },
        {name: read_stats(fields["longTerm"]) for name, fields in case.input.get("bundles", {}).items()},
        lambda namespace: read_count(counts, namespace),
        case.settings,
    )
    if "split" in case.expected:
        comparison.equal("split", case.expected["split"], found)
    if "count" in case.expected:
        comparison.equal("count", case.expected["count"], len(found))
    return comparison


def read_count(counts: Any, namespace: str) -> int | None:
    """How many bundles a namespace has: one number for all, or one each; "error" where they cannot be counted."""
    count = counts.get(namespace, 0) if isinstance(counts, Mapping) else counts
    return None if count == "error" else int(count)


def _run(case: Case, decide: Decide) -> Comparison:
    comparison = Comparison()
    for given, expected, label in case.steps():
        cluster = _read_cluster(given)
        unloads, destinations = decide(cluster, case.settings)
        _compare(comparison, label, expected, cluster, unloads, destinations)
    return comparison


def _read_cluster(given: Mapping[str, Any]) -> ModularCluster:
    return ModularCluster(
        brokers={name: _read_broker(fields) for name, fields in given.get("brokers", {}).items()},
        bundles={name: _read_traffic(fields["shortTerm"]) for name, fields in given.get("bundles", {}).items()},
        recently_unloaded=names_of(given.get("recently_unloaded_bundles")),
    )


def _read_broker(fields: Mapping[str, Any]) -> ModularBroker:
    return ModularBroker(
        read_usages(fields.get("resources", {})), frozenset(fields.get("bundles", ())), _read_traffic(fields)
    )


def _read_traffic(fields: Mapping[str, Any]) -> Traffic:
    stats = read_stats({key: value for key, value in fields.items() if key.startswith("msg")})
    return Traffic(stats.msg_rate, stats.throughput)


def _compare(
    comparison: Comparison,
    label: str,
    expected: Mapping[str, Any],
    cluster: ModularCluster,
    unloads: Unloads,
    destinations: Mapping[str, str],
) -> None:
    total = sum(len(bundles) for bundles in unloads.values())
    if "unload" in expected:
        order: Callable[[Any], list[str]] = list if expected.get("ordered") else sorted
        wanted = {broker: order(bundles) for broker, bundles in expected["unload"].items() if bundles}
        comparison.equal(f"{label}unload", wanted, {broker: order(bundles) for broker, bundles in unloads.items()})
    if expected.get("match") == "count":
        broker = expected.get("broker")
        found = total if broker is None else len(unloads.get(broker, ()))
        comparison.equal(f"{label}count of {broker or 'all'}", expected["count"], found)
    if expected.get("match") == "one_bundle_from_one_broker_of":
        comparison.equal(f"{label}count", 1, total)
        comparison.within(f"{label}broker", expected["brokers"], list(unloads))
        is_own = all(set(bundles) <= cluster.brokers[name].bundles for name, bundles in unloads.items())
        comparison.equal(f"{label}bundle is the broker's own", True, is_own)
    if "unload_count" in expected:
        comparison.equal(f"{label}unload_count", expected["unload_count"], total)
    if "by_source" in expected:
        by_source = {broker: len(bundles) for broker, bundles in unloads.items()}
        comparison.equal(f"{label}by_source", expected["by_source"], by_source)
    for source, destination in expected.get("dest_of", {}).items():
        found = {destinations.get(bundle) for bundle in unloads.get(source, ())}
        comparison.equal(f"{label}destination of {source}", {destination}, found)


ADAPTERS = {
    "ThresholdShedder": run_threshold,
    "OverloadShedder": run_overload,
    "UniformLoadShedder": run_uniform,
    "AvgShedder": run_avg,
    "BundleSplitterTask": run_split_task,
}
