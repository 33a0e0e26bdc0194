"""Explain what a plan leaves out of the pools' plans: because of which budget or order, and what it would take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evenkeel.model.plan import Rejection
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.cluster_brokers import ClusterBroker, PooledMove, pool_loads_after, total_cost
from evenkeel.planning.cluster.selection import FOREIGN_LOAD, NO_GAIN, SPLIT_BUDGET, WAVE_ORDER, PooledSplit, Selection
from evenkeel.planning.explaining.words import count, limit_name, number, percent
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.problem.budgets import PLAN_BUDGETS, SPLIT_COST, TENANT_BUDGETS, WAVE_BUDGETS, BudgetRule
from evenkeel.planning.problem.columns import Vector

NOTHING_TO_DO = "nothing-to-do"

_UNITS = {"steps": "step", "bytes_per_s": "byte/s", "sessions": "session", "client_ms": "client-second"}
_WHY_NOT_IN_ORDER = {
    WAVE_ORDER: "no order of the steps brings it about without breaking the overload line, the topic limit or an "
    "anti-affinity peak on the way",
    FOREIGN_LOAD: "bundles of other pools, which stay where it goes, leave no room for it inside the band",
    SPLIT_BUDGET: "its bundle is not split, because max_number_of_bundles_to_split_per_cycle is reached",
    NO_GAIN: "without the moves that are left out, nothing that arrives there needs the room",
}
_WHY_NOT_SPLIT = {
    SPLIT_BUDGET: "max_number_of_bundles_to_split_per_cycle is reached",
    NO_GAIN: "no part of it would move",
}


def explain_omissions(
    plans: Sequence[PoolPlan],
    selection: Selection,
    brokers: Mapping[str, ClusterBroker],
    after: Mapping[str, Vector],
    settings: Settings,
) -> list[Rejection]:
    """One row per move and split that was left out, per broker above its band in the end, and per budget that binds."""
    departures: dict[str, list[str]] = defaultdict(list)
    for move, rule in selection.dropped:
        departures[move.source].append(rule)
    return [
        *(_left_out(move, rule, settings) for move, rule in selection.dropped),
        *(_left_whole(split, rule) for split, rule in selection.splits.dropped),
        *_explain_hot_brokers(plans, brokers, after, pool_loads_after(plans, selection.moves), departures),
        *_binding_budgets(selection, settings),
    ]


def explain_empty_plan(plans: Sequence[PoolPlan], brokers: Iterable[ClusterBroker]) -> Rejection:
    """Say why there is nothing to do, if no other row says so."""
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
    takes = f"it takes {_amount(budget, getattr(pooled.cost, budget.field))}"
    return f"{takes}, and {_in_words(budget, settings)} has no room for it or for a step that it needs"


def _explain_hot_brokers(
    plans: Sequence[PoolPlan],
    brokers: Mapping[str, ClusterBroker],
    after: Mapping[str, Vector],
    own_after: Mapping[tuple[str, str], Vector],
    departures: Mapping[str, Sequence[str]],
) -> Iterator[Rejection]:
    """One row per resource of which a broker carries more than its band allows in the end, and why it does."""
    stays_hot = {plan.pool: plan.stays_hot for plan in plans}
    for name, broker in brokers.items():
        load = after[name]
        for index in broker.outside_band(load):
            limit, band = broker.limit[index], broker.band_limit[index]
            foreign = load[index] - own_after[broker.pool, name][index]
            if left_out := departures.get(name):
                moves = f"{count(len(left_out), 'move')} off it {'is' if len(left_out) == 1 else 'are'} left out"
                rule, why = left_out[0], moves
            elif foreign and load[index] - foreign <= band:
                rule, why = FOREIGN_LOAD, f"bundles of other pools use {percent(foreign, limit)} of it"
            else:
                rule, why = stays_hot[broker.pool]
            detail = (
                f"ends at {percent(load[index], limit)} of its {limit_name(index)} "
                f"(before: {percent(broker.used[index], limit)}), where the band ends at {percent(band, limit)}: {why}"
            )
            yield Rejection(broker.pool, "broker", None, name, rule, detail)


def _binding_budgets(selection: Selection, settings: Settings) -> Iterator[Rejection]:
    """For each budget that left moves out: how many, and what the budget would have to be."""
    left_out: dict[str, list[PooledMove]] = defaultdict(list)
    for move, rule in selection.dropped:
        left_out[rule].append(move)
    everything = [*selection.moves, *(move for move, _ in selection.dropped)]
    splits = [split for wave in selection.splits.waves for split in wave] + [one for one, _ in selection.splits.dropped]
    for budget in (*PLAN_BUDGETS, *TENANT_BUDGETS, *WAVE_BUDGETS):
        moves = left_out.get(budget.name)
        if moves:
            needs = _what_it_would_take(budget, moves, everything, splits)
            detail = f"{_in_words(budget, settings)} leaves out {count(len(moves), 'move')}: {needs}"
            yield Rejection("", "plan", None, None, budget.name, detail)


def _what_it_would_take(
    budget: BudgetRule,
    left_out: Sequence[PooledMove],
    everything: Sequence[PooledMove],
    splits: Sequence[PooledSplit],
) -> str:
    if budget in WAVE_BUDGETS:
        most = max(getattr(move.cost, budget.field) for move in left_out)
        return f"the largest of them takes {_amount(budget, most)} by itself"
    if budget in PLAN_BUDGETS:
        total = getattr(total_cost(everything), budget.field) + len(splits) * getattr(SPLIT_COST, budget.field)
        return f"all {_moves_and_splits(splits)} would take {_amount(budget, total)}"
    cut = {move.tenant for move in left_out}
    totals = Counter[str]()
    for move in everything:
        totals[move.tenant] += getattr(move.cost, budget.field)
    for split in splits:
        totals[split.tenant] += getattr(SPLIT_COST, budget.field)
    tenant = min(cut, key=lambda name: (-totals[name], name))
    its_splits = [split for split in splits if split.tenant == tenant]
    return f"all {_moves_and_splits(its_splits)} of tenant {tenant} would take {_amount(budget, totals[tenant])}"


def _moves_and_splits(splits: Sequence[PooledSplit]) -> str:
    return "moves and splits" if splits else "moves"


def _in_words(budget: BudgetRule, settings: Settings) -> str:
    return f"the budget {budget.setting} = {number(getattr(settings, budget.setting))}"


def _amount(budget: BudgetRule, value: int) -> str:
    return count(value / budget.per_unit, _UNITS[budget.field])
