"""The figures of a decision are those of the plan."""

from __future__ import annotations

from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import assemble
from evenkeel.report.metrics import measure_plan, measure_pool
from support.clusters import context, random_cluster, solve_pools


def test_figures_of_the_plan_count_what_will_be_done_and_those_of_a_pool_what_it_wanted() -> None:
    settings = Settings(max_steps=3)
    pools = solve_pools(random_cluster(7, n_brokers=12, n_bundles=300), settings)
    planned = assemble(pools, context(settings))
    figures = measure_plan(planned, pools)
    wanted = [measure_pool(pool) for pool in pools]
    assert figures["moves"] == len(planned.steps) > 0
    assert figures["moves"] <= settings.max_steps < sum(pool["moves"] for pool in wanted)
    assert figures["pools"] == len(wanted) > 1
    assert figures["bundles"] == sum(pool["bundles"] for pool in wanted)
    assert figures["waves"] == planned.steps[-1].wave + 1
    assert figures["bound_moves"] == sum(pool["bound_moves"] for pool in wanted)
    assert figures["rejections"]["step-budget"] == sum(row.rule == "step-budget" for row in planned.rejections) > 0
    assert list(figures["rejections"]) == sorted(figures["rejections"])
    assert sum(figures["rejections"].values()) == len(planned.rejections)
