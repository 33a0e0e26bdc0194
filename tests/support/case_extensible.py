"""Runs cases of a broker under the extensible manager: its load data, its top bundles and what it splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from evenkeel.model.bundles import BundleRange
from evenkeel.model.policies import IsolationPolicy, Policies
from evenkeel.pulsar_rules.eligibility import Eligibility
from evenkeel.pulsar_rules.ring import range_equally_divide
from support.case_modular import read_count
from support.case_reading import Case, Comparison, read_stats, read_usages
from support.pulsar_reference.reports import BrokerLoadData, BrokerReport, find_top_bundles, update_load_data
from support.pulsar_reference.splits import SplitView, find_splits, range_of


def run_load_data(case: Case) -> Comparison:
    comparison = Comparison()
    data: BrokerLoadData | None = None
    tolerance = float(case.expected.get("tolerance", 0))
    for given, expected, label in case.steps():
        report = BrokerReport(
            read_usages(given["resources"]), float(given["msgThroughputIn"]), float(given["msgThroughputOut"])
        )
        data = update_load_data(data, report, case.settings)
        found = {
            "maxResourceUsage": data.highest_usage,
            "weightedMaxEMA": data.weighted_max_average,
            "msgThroughputEMA": data.throughput_average,
        }
        for key in found.keys() & expected.keys():
            comparison.close(f"{label}{key}", expected[key], found[key], tolerance)
    return comparison


def run_top_bundles(case: Case) -> Comparison:
    comparison = Comparison()
    has_policies = policy_test(case.input)
    stats = {bundle: read_stats(fields) for bundle, fields in case.input["bundles"].items()}
    found = find_top_bundles(stats, int(case.input["k"]), has_policies, case.settings)
    comparison.equal("list", case.expected["list"], found)
    return comparison


def policy_test(given: Mapping[str, Any]) -> Callable[[str], bool]:
    """Whether a namespace has an isolation policy or an anti-affinity group, by the case's policies."""
    isolation = given.get("isolation") or {}
    policies = Policies(tuple(IsolationPolicy.from_json(name, fields) for name, fields in isolation.items()))
    eligibility = Eligibility([], policies)
    groups = given.get("antiAffinityGroup") or {}
    return lambda namespace: eligibility.policy_of(namespace) is not None or bool(groups.get(namespace))


def run_split_strategy(case: Case) -> Comparison:
    comparison = Comparison()
    hits: Mapping[str, int] = {}
    for given, expected, label in case.steps():
        outcome = find_splits(_read_split_view(given), hits, case.settings)
        hits = outcome.hits
        found = [
            {
                "bundle": split.bundle,
                "source": given.get("broker"),
                "children": list(split.children),
                "dest": [None, None],
                "reason": str(split.reason),
            }
            for split in outcome.splits
        ]
        keys = set().union(*expected["splits"]) or {"bundle"}
        shown = [{key: split[key] for key in split if key in keys} for split in found]
        comparison.equal(f"{label}splits", sorted(expected["splits"], key=_bundle), sorted(shown, key=_bundle))
        if "failures" in expected:
            comparison.equal(f"{label}failures", expected["failures"], outcome.failures)
    return comparison


def _bundle(split: Mapping[str, Any]) -> str:
    return str(split["bundle"])


def _read_split_view(given: Mapping[str, Any]) -> SplitView:
    stats = given["bundle_stats_in_order"]
    pairs = stats.items() if isinstance(stats, Mapping) else stats
    boundaries = given.get("split_boundary") or {}
    owned = given.get("owned_bundles")
    return SplitView(
        stats={bundle: read_stats(fields) for bundle, fields in pairs},
        count_bundles=lambda namespace: read_count(given.get("namespace_bundle_count", 0), namespace),
        find_boundaries=lambda bundle: _read_boundaries(bundle, boundaries),
        is_owner=lambda bundle: bundle in owned if owned is not None else bool(given.get("owner_of_all", True)),
        splitting=[bundle for bundle, state in given.get("states", {}).items() if state == "Splitting"],
    )


def _read_boundaries(bundle: str, given: Mapping[str, Any]) -> list[int] | None:
    if bundle not in given:
        return range_equally_divide(BundleRange(*range_of(bundle)))
    found = given[bundle]
    if found is None or found == "error":
        return None
    cuts = found if isinstance(found, list) else [found]
    return [int(cut, 16) if isinstance(cut, str) else int(cut) for cut in cuts]


ADAPTERS = {
    "BrokerLoadData.update": run_load_data,
    "TopKBundles": run_top_bundles,
    "DefaultNamespaceBundleSplitStrategyImpl": run_split_strategy,
}
