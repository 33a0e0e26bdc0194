"""Plan a cluster from its planning loads: find the pools, plan each of them, and verify what comes out."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.errors import EvenkeelError, RefusedError
from evenkeel.model.figures import StrategyReplay
from evenkeel.model.load import SplitCandidate
from evenkeel.model.outside_json import read_record
from evenkeel.model.plan import Step
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.pool import planner as pool_planner
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.problem.pools import PoolAssignment, assign_pools, find_unreported, live_broker_ids
from evenkeel.planning.pulsar_strategies.comparison import describe_counterfactuals, leave_out_counterfactuals
from evenkeel.planning.pulsar_strategies.counterfactual import STRATEGIES, StrategyDecision, decide
from evenkeel.planning.pulsar_strategies.strategy_plan import strategy_pool_plan
from evenkeel.planning.search.optimiser import always
from evenkeel.planning.splitting.choice import large_bundle_sizes, large_candidate
from evenkeel.planning.verifier.verifier import find_violations
from evenkeel.report.metrics import measure_plan, measure_pool
from evenkeel_spark.cluster_loads import (
    BundlesAtStake,
    ClusterLoads,
    NamespaceTotal,
    PlannedPool,
    as_columns,
    boundaries_of,
)
from evenkeel_spark.stated_errors import decode_error, encode_error
from evenkeel_spark.transforms.split_candidates import FEWEST_TOPICS

DECISION_PREFIX = "evenkeel-decision: "
LOGGER = logging.getLogger("evenkeel.planning")


@dataclass(frozen=True, slots=True)
class PlanningInputs:
    """What every pool's planner needs besides its bundles; small, and sent to the executors as it is.

    With a `decision` of one of Pulsar's strategies, that is carried out, and nothing else.
    """

    brokers: Sequence[Broker]
    policies: Policies
    settings: Settings
    split_candidates: Sequence[SplitCandidate] = ()
    decision: StrategyDecision | None = None

    @property
    def unreported(self) -> frozenset[str]:
        """The brokers whose pools are left as they are, because nobody knows what these carry."""
        return find_unreported(self.brokers)


@dataclass(frozen=True, slots=True)
class SolvedPools:
    """The plans of all pools in order of their names, the seconds that each took, and the namespaces in them."""

    plans: Sequence[PoolPlan]
    seconds_of_pools: Sequence[float]
    namespaces: Sequence[str]

    @property
    def seconds(self) -> float:
        """The seconds that the planner took for all pools together."""
        return sum(self.seconds_of_pools)

    @property
    def bundles(self) -> int:
        """How many bundles the pools have."""
        return sum(plan.bundles for plan in self.plans)


def solve_pools(loads: ClusterLoads, inputs: PlanningInputs) -> SolvedPools:
    """Plan all pools of a cluster; bundles too big for any broker are split, candidates or not."""
    # Namespaces are few, and only the driver sees all policies at once.
    totals = [total for total in loads.namespace_totals() if total.owned and not is_system_namespace(total.namespace)]
    namespaces = sorted(total.namespace for total in totals)
    pools = assign_pools(namespaces, live_broker_ids(inputs.brokers), inputs.policies)
    has_splits_left = len(inputs.split_candidates) < inputs.settings.max_number_of_bundles_to_split_per_cycle
    if inputs.decision is None and has_splits_left:
        large = find_large_bundles(loads, totals, pools, inputs)
        inputs = replace(inputs, split_candidates=[*inputs.split_candidates, *large])
    planned = loads.plan_pools(pools, lambda pool, bundles: plan_pool(pool, bundles, inputs))
    for row in planned:
        if row.error is not None:
            raise decode_error(row.error)
    plans = [PoolPlan.from_json(str(row.plan)) for row in planned]
    return SolvedPools(plans, [row.seconds for row in planned], namespaces)


def plan_pool(pool: str, bundles: BundleColumns, inputs: PlanningInputs) -> PlannedPool:
    """Plan one pool from its bundles, in whatever order they come."""
    started_at_s = time.monotonic()
    plan = error = None
    try:
        given = (pool, inputs.brokers, bundles, inputs.policies, inputs.settings)
        if inputs.decision is None:
            deadline_s = inputs.settings.search_deadline_s
            has_time = always if deadline_s is None else lambda: time.monotonic() - started_at_s < deadline_s
            planned = pool_planner.plan_pool(*given, inputs.split_candidates, has_time, unreported=inputs.unreported)
        else:
            planned = strategy_pool_plan(*given, inputs.decision, inputs.unreported)
        plan = planned.to_json()
    except EvenkeelError as stated:
        # As a value, or else Spark would bury the sentence in a trace of its own.
        error = encode_error(stated)
    return PlannedPool(pool, plan, error, time.monotonic() - started_at_s)


def find_large_bundles(
    loads: ClusterLoads, totals: Sequence[NamespaceTotal], pools: PoolAssignment, inputs: PlanningInputs
) -> list[SplitCandidate]:
    """The bundles with two topics or more that may be too big for any broker of their pool, each with its best cut.

    A cut needs topics, which no planner on an executor has; so the bundles that come into question are found before.
    """
    carried = {total.namespace: total.carried for total in totals}
    size_of_pool = large_bundle_sizes(carried, pools, inputs.brokers, inputs.settings)
    pool_of = pools.pool_of_namespace
    sizes = {name: size_of_pool[pool_of[name]] for name in carried if pool_of.get(name) in size_of_pool}
    known = {candidate.bundle for candidate in inputs.split_candidates}
    large = loads.bundles_above(sizes, FEWEST_TOPICS)
    cuts = loads.find_cuts({row["bundle"]: None for row in large})
    bundles_in = {total.namespace: total.bundles for total in totals}
    return [
        large_candidate(
            namespace=row["namespace"],
            bundle=row["bundle"],
            topics=row["topics"],
            sessions=row["sessions"],
            msg_rate_millis=row["msg_rate_millis"],
            throughput=row["throughput_in"] + row["throughput_out"],
            namespace_bundles=bundles_in[row["namespace"]],
            cut=cuts[row["bundle"]],
        )
        for row in sorted(large, key=lambda row: row["bundle"])
        if row["bundle"] in cuts and row["bundle"] not in known
    ]


def with_decision_of(strategy: str, loads: ClusterLoads, inputs: PlanningInputs) -> PlanningInputs:
    """The inputs with what one of Pulsar's strategies decides; unchanged where the strategy is ours."""
    if strategy not in STRATEGIES:
        return inputs

    def ask(bundles: BundleColumns) -> dict[str, Any]:
        return decide(strategy, inputs.brokers, bundles, inputs.policies, inputs.settings).to_json()

    return replace(inputs, decision=StrategyDecision(**loads.compute(ask)))


def find_counterfactuals(loads: ClusterLoads, inputs: PlanningInputs, bundle_count: int) -> tuple[StrategyReplay, ...]:
    """What each of Pulsar's strategies would have done, or why that is left out; one row a strategy."""
    if bundle_count > inputs.settings.counterfactual_max_bundles:
        return leave_out_counterfactuals(bundle_count, inputs.settings)

    def compare(bundles: BundleColumns) -> list[dict[str, Any]]:
        replays = describe_counterfactuals(inputs.brokers, bundles, inputs.policies, inputs.settings)
        return [asdict(replay) for replay in replays]

    rows: list[dict[str, Any]] = loads.compute(compare)
    return tuple(read_record(StrategyReplay, row) for row in rows)


def require_legal(loads: ClusterLoads, steps: Sequence[Step], inputs: PlanningInputs) -> None:
    """Refuse a plan that breaks a hard rule; that is never the user's fault."""
    bundles = as_columns(loads.placed(BundlesAtStake.of(steps, inputs.policies)))
    cuts = loads.find_cuts(boundaries_of(steps))
    broken = find_violations(steps, inputs.brokers, bundles, inputs.policies, inputs.settings, cuts)
    if broken:
        first = broken[0]
        where = "" if first.order is None else f" in step {first.order}"
        others = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise RefusedError(
            f"the planner made a plan that breaks the rule {first.rule}{where} ({first.detail}){others}",
            "report this as a bug, with the snapshot; nothing was written",
        )


def log_decisions(solved: SolvedPools, planned: PlannedCluster) -> dict[str, Any]:
    """Log one line a pool and one for the plan, each `evenkeel-decision: {…}` with its figures; returns the plan's."""
    for plan, seconds in zip(solved.plans, solved.seconds_of_pools, strict=True):
        _log("pool", measure_pool(plan) | {"solve_seconds": round(seconds, 3)})
    metrics = measure_plan(planned, solved.plans) | {"solve_seconds": round(solved.seconds, 3)}
    _log("plan", {"plan_id": planned.plan.plan_id} | metrics)
    return metrics


def _log(scope: str, figures: Mapping[str, Any]) -> None:
    LOGGER.info("%s%s", DECISION_PREFIX, json.dumps({"scope": scope, **figures}, ensure_ascii=False))
