"""Pulsar's own strategies on Spark: one executor plays them through over the whole cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.peers.comparison import describe_counterfactuals, leave_out_counterfactuals
from evenkeel.planning.peers.decision import PEERS, PeerDecision, decide
from evenkeel_spark.transforms.pools import plannable_bundles
from evenkeel_spark.transforms.transfers import PlanningInputs
from evenkeel_spark.transforms.whole_cluster import on_one_executor


def with_decision_of(strategy: str, loads: DataFrame, inputs: PlanningInputs) -> PlanningInputs:
    """The inputs with what a strategy of Pulsar's decides; unchanged where the strategy is ours."""
    if strategy not in PEERS:
        return inputs

    def ask(bundles: BundleColumns) -> dict[str, Any]:
        return decide(strategy, inputs.brokers, bundles, inputs.policies, inputs.settings).to_json()

    return replace(inputs, peer=PeerDecision(**on_one_executor(loads.transform(plannable_bundles), ask)))


def find_counterfactuals(loads: DataFrame, inputs: PlanningInputs, bundle_count: int) -> list[dict[str, Any]]:
    """What each strategy of Pulsar's would have done, or why that is left out; one row a strategy."""
    if bundle_count > inputs.settings.counterfactual_max_bundles:
        return leave_out_counterfactuals(bundle_count, inputs.settings)

    def compare(bundles: BundleColumns) -> list[dict[str, Any]]:
        return describe_counterfactuals(inputs.brokers, bundles, inputs.policies, inputs.settings)

    rows: list[dict[str, Any]] = on_one_executor(loads.transform(plannable_bundles), compare)
    return rows
