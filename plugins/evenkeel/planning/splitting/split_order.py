"""Chooses which splits of all pools fit the budgets, and puts them into waves before the moves of their children."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenkeel.model.bundles import tenant_of
from evenkeel.model.settings import Settings
from evenkeel.planning.ordering.budgets import PLAN_BUDGETS, SPLIT_COST, TENANT_BUDGETS, Cost, Ledger
from evenkeel.planning.ordering.cluster_brokers import PooledMove
from evenkeel.planning.pool_plan import PoolPlan, SplitMove

SPLIT_BUDGET = "split-budget"
NO_GAIN = "no-gain"


@dataclass(frozen=True, slots=True)
class PooledSplit:
    """A split with the name of its broker and its pool."""

    pool: str
    source: str
    split: SplitMove

    @property
    def bundle(self) -> str:
        return self.split.bundle

    @property
    def tenant(self) -> str:
        return tenant_of(self.split.bundle)


@dataclass(frozen=True, slots=True)
class SplitSelection:
    """Splits wave by wave, and those that were dropped, with the rule that dropped them."""

    waves: tuple[tuple[PooledSplit, ...], ...] = ()
    dropped: tuple[tuple[PooledSplit, str], ...] = ()


def collect_splits(pool_plans: Iterable[PoolPlan]) -> list[PooledSplit]:
    """The splits of all pools, most urgent first."""
    splits = [
        PooledSplit(plan.pool, plan.brokers[split.source].broker_id, split)
        for plan in pool_plans
        for split in plan.splits
    ]
    return sorted(splits, key=lambda pooled: (pooled.split.rank, pooled.bundle))


def drop_orphans(
    moves: Sequence[PooledMove], splits: Sequence[PooledSplit], settings: Settings
) -> tuple[list[PooledMove], list[tuple[PooledMove, str]]]:
    """Part the moves from those of children whose parents are beyond the most splits that a plan may have."""
    beyond = {pooled.bundle for pooled in splits[settings.max_number_of_bundles_to_split_per_cycle :]}
    kept = [move for move in moves if move.move.after_split_of not in beyond]
    return kept, [(move, SPLIT_BUDGET) for move in moves if move.move.after_split_of in beyond]


def select_splits(splits: Sequence[PooledSplit], moves: Sequence[PooledMove], settings: Settings) -> SplitSelection:
    """Take the splits that the chosen moves need, then the others while budgets last.

    All of them come before the first move, so that every child is there when its turn comes. A split disturbs nobody,
    and only the numbers of steps and of splits are limited.
    """
    needed = {move.move.after_split_of for move in moves} - {None}
    ledger = _StepLedger([*(move.tenant for move in moves), *(tenant_of(str(bundle)) for bundle in needed)], settings)
    taken: list[PooledSplit] = []
    dropped: list[tuple[PooledSplit, str]] = []
    for place, pooled in enumerate(splits):
        refusal = None
        if pooled.bundle not in needed:
            refusal = _find_refusal(place, pooled, ledger, settings)
        if refusal is None:
            taken.append(pooled)
        else:
            dropped.append((pooled, refusal))
    canary, others = taken[: settings.canary_steps], taken[settings.canary_steps :]
    later = [others[start : start + settings.wave_steps] for start in range(0, len(others), settings.wave_steps)]
    return SplitSelection(tuple(tuple(wave) for wave in (canary, *later) if wave), tuple(dropped))


def _find_refusal(place: int, pooled: PooledSplit, ledger: _StepLedger, settings: Settings) -> str | None:
    if place >= settings.max_number_of_bundles_to_split_per_cycle:
        return SPLIT_BUDGET
    if pooled.split.is_only_for_moves:
        return NO_GAIN
    return ledger.take_step(pooled.tenant)


class _StepLedger:
    """How many steps a plan and its tenants have left."""

    def __init__(self, tenants_of_steps: Iterable[str], settings: Settings) -> None:
        self._settings = settings
        self._of_plan = Ledger(PLAN_BUDGETS, settings)
        self._of_tenant: dict[str, Ledger] = {}
        for tenant, steps in Counter(tenants_of_steps).items():
            self._of_plan.spend(Cost(steps=steps))
            self._ledger_of(tenant).spend(Cost(steps=steps))

    def take_step(self, tenant: str) -> str | None:
        """Take a step more, or say which budget has no room for it."""
        of_tenant = self._ledger_of(tenant)
        refusal = of_tenant.refusal(SPLIT_COST) or self._of_plan.refusal(SPLIT_COST)
        if refusal is None:
            of_tenant.spend(SPLIT_COST)
            self._of_plan.spend(SPLIT_COST)
        return refusal

    def _ledger_of(self, tenant: str) -> Ledger:
        return self._of_tenant.setdefault(tenant, Ledger(TENANT_BUDGETS, self._settings))
