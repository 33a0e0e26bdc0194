"""Says what a plan leaves out although a pool asked for it: by which budget or order, and what it would take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import Rejection
from evenkeel.model.settings import Settings
from evenkeel.planning.explaining.words import percent, resource_name
from evenkeel.planning.ordering.budgets import (
    PLAN_BUDGETS,
    TENANT_BUDGETS,
    WAVE_BUDGETS,
    BudgetRule,
    cost_of,
    total_cost,
)
from evenkeel.planning.ordering.cluster_brokers import ClusterBroker, PooledMove
from evenkeel.planning.ordering.harm import FOREIGN_LOAD
from evenkeel.planning.ordering.selection import WAVE_ORDER, Selection
from evenkeel.planning.pool_plan import PoolPlan, Vector
from evenkeel.planning.splitting.split_order import NO_GAIN, SPLIT_BUDGET, PooledSplit

NOTHING_TO_DO = "nothing-to-do"

_UNITS = {"steps": "step", "bytes_per_s": "byte/s", "sessions": "session", "client_ms": "client-second"}
_WHY_NOT_IN_ORDER = {
    WAVE_ORDER: "no order of the steps brings it about without breaking the overload line, the topic limit or an "
    "anti-affinity peak on the way",
    FOREIGN_LOAD: "bundles of other pools, which stay where it goes, leave no room for it inside the band",
    SPLIT_BUDGET: "its bundle is not split, because max_number_of_bundles_to_split_per_cycle is reached",
}
_WHY_NOT_SPLIT = {
    SPLIT_BUDGET: "max_number_of_bundles_to_split_per_cycle is reached",
    NO_GAIN: "no part of it would move",
}


def explain_omissions(
    selection: Selection, brokers: Mapping[str, ClusterBroker], after: Mapping[str, Vector], settings: Settings
) -> list[Rejection]:
    """A row for each move that was left out, each broker that stays hot therefore, and each budget that binds."""
    sources = {move.source: rule for move, rule in reversed(selection.dropped)}
    return [
        *(_left_out(move, rule, settings) for move, rule in selection.dropped),
        *(_left_whole(split, rule) for split, rule in selection.splits.dropped),
        *(row for name, rule in sorted(sources.items()) for row in _stays_hot(brokers[name], after[name], rule)),
        *_binding_budgets(selection, settings),
    ]


def explain_empty_plan(plans: Sequence[PoolPlan], brokers: Iterable[ClusterBroker]) -> Rejection:
    """Why there is nothing to do, where no rule says it already."""
    rows = list(brokers)
    if not rows:
        detail = "the snapshot has no broker and no owned bundle: there is nothing to balance"
    elif not any(plan.bundles for plan in plans):
        detail = "the brokers own no bundle: there is nothing to move"
    elif not any(any(broker.used) for broker in rows):
        detail = "no bundle carries any load: every placement is as good as this one"
    elif all(sum(broker.is_member for broker in plan.brokers) <= 1 for plan in plans):
        detail = "no pool has more than one broker: there is nowhere to move a bundle to"
    elif not any(any(broker.limit) for broker in rows):
        detail = "no broker has a known limit: nothing says how full it is"
    else:
        detail = "every broker is inside its band, and no rule is broken"
    return Rejection("", "plan", None, None, NOTHING_TO_DO, detail)


def _left_out(pooled: PooledMove, rule: str, settings: Settings) -> Rejection:
    why = _WHY_NOT_IN_ORDER.get(rule) or _why_over_budget(pooled, rule, settings)
    detail = f"its move from {pooled.source} to {pooled.destination} is left out: {why}"
    return Rejection(pooled.pool, "bundle", pooled.move.bundle, pooled.source, rule, detail)


def _left_whole(pooled: PooledSplit, rule: str) -> Rejection:
    why = _WHY_NOT_SPLIT.get(rule, f"the {rule} has no room for another step")
    detail = f"not split, because {why}; {pooled.split.reason}"
    return Rejection(pooled.pool, "bundle", pooled.bundle, pooled.source, rule, detail)


def _why_over_budget(pooled: PooledMove, rule: str, settings: Settings) -> str:
    budget = next(budget for budget in (*PLAN_BUDGETS, *TENANT_BUDGETS, *WAVE_BUDGETS) if budget.name == rule)
    takes = f"it takes {_amount(budget, getattr(cost_of(pooled), budget.field))}"
    return f"{takes}, and {_in_words(budget, settings)} has no room for it or for a step that it needs"


def _stays_hot(broker: ClusterBroker, used: Vector, rule: str) -> Iterator[Rejection]:
    for index in range(len(RESOURCES)):
        limit, band = broker.limit[index], broker.band_limit[index]
        if broker.pool and limit and used[index] > band:
            detail = (
                f"stays at {percent(used[index], limit)} of its {resource_name(index)} "
                f"(before: {percent(broker.used[index], limit)}), where the band ends at {percent(band, limit)}, "
                "because moves off it are left out"
            )
            yield Rejection(broker.pool, "broker", None, broker.broker_id, rule, detail)


def _binding_budgets(selection: Selection, settings: Settings) -> Iterator[Rejection]:
    """Of each budget that left something out, how much, and what it would have to be."""
    left_out: dict[str, list[PooledMove]] = defaultdict(list)
    for move, rule in selection.dropped:
        left_out[rule].append(move)
    everything = [*selection.moves, *(move for move, _ in selection.dropped)]
    for budget in (*PLAN_BUDGETS, *TENANT_BUDGETS, *WAVE_BUDGETS):
        moves = left_out.get(budget.name)
        if moves:
            needs = _what_it_would_take(budget, moves, everything)
            detail = f"{_in_words(budget, settings)} leaves out {_count(len(moves), 'move')}: {needs}"
            yield Rejection("", "plan", None, None, budget.name, detail)


def _what_it_would_take(budget: BudgetRule, left_out: Sequence[PooledMove], everything: Sequence[PooledMove]) -> str:
    if budget in PLAN_BUDGETS:
        return f"all moves would take {_amount(budget, getattr(total_cost(everything), budget.field))}"
    if budget in WAVE_BUDGETS:
        most = max(getattr(cost_of(move), budget.field) for move in left_out)
        return f"the largest of them takes {_amount(budget, most)} by itself"
    cut = {move.tenant for move in left_out}
    totals = Counter[str]()
    for move in everything:
        if move.tenant in cut:
            totals[move.tenant] += getattr(cost_of(move), budget.field)
    tenant = min(cut, key=lambda name: (-totals[name], name))
    return f"all moves of tenant {tenant} would take {_amount(budget, totals[tenant])}"


def _in_words(budget: BudgetRule, settings: Settings) -> str:
    return f"the budget {budget.setting} = {_number(getattr(settings, budget.setting))}"


def _amount(budget: BudgetRule, value: int) -> str:
    return _count(value / budget.per_unit, _UNITS[budget.field])


def _count(value: float, unit: str) -> str:
    """A figure with its unit, in the plural where it is not one."""
    noun, slash, per = unit.partition("/")
    return f"{_number(value)} {noun if value == 1 else f'{noun}s'}{slash}{per}"


def _number(value: float) -> str:
    """A figure for people: whole where it is whole."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.3f}"
