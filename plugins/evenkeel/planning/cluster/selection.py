"""Choose which moves and splits of all pools fit the budgets, and order them into waves.

Moves are ordered by urgency and kept while budgets last. Dropping a move may leave its source too full for moves that
were to go there; those are dropped as well, and so are moves that were to make room for them. Splits come before all
moves, so that every child exists before it moves.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evenkeel.model.bundles import tenant_of
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.cluster_brokers import (
    ClusterBroker,
    PooledMove,
    is_within,
    loads_after,
    minus,
    plus,
)
from evenkeel.planning.cluster.urgency import order_by_urgency
from evenkeel.planning.cluster.waves import Occupancy, cut_waves
from evenkeel.planning.pool.plan import PoolPlan, SplitMove
from evenkeel.planning.problem.budgets import PLAN_BUDGETS, SPLIT_COST, TENANT_BUDGETS, WAVE_BUDGETS, Cost, Ledger
from evenkeel.planning.problem.columns import Vector, vector

# Rules as the table of rejections stores them; their text is part of the plan id.
WAVE_ORDER = "wave-order"
FOREIGN_LOAD = "foreign-load"
SPLIT_BUDGET = "split-budget"
NO_GAIN = "no-gain"

Dropped = tuple[PooledMove, str]


@dataclass(frozen=True, slots=True)
class PooledSplit:
    """A split with the names of its pool and its broker."""

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
    """The chosen splits by wave, and the dropped ones with the rule that dropped them."""

    waves: tuple[tuple[PooledSplit, ...], ...] = ()
    dropped: tuple[tuple[PooledSplit, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen moves by wave, and the dropped ones with the rule that dropped them; splits come before all moves."""

    waves: tuple[tuple[PooledMove, ...], ...]
    dropped: tuple[Dropped, ...]
    splits: SplitSelection = field(default_factory=SplitSelection)

    @property
    def moves(self) -> list[PooledMove]:
        """The chosen moves in the order of the plan."""
        return [move for wave in self.waves for move in wave]


def select(
    moves: Sequence[PooledMove],
    brokers: Mapping[str, ClusterBroker],
    groups: Mapping[tuple[str, str], int],
    settings: Settings,
    splits: Sequence[PooledSplit] = (),
) -> Selection:
    """Keep the most urgent moves within the budgets, drop those that depended on dropped ones, and cut waves.

    `groups` counts the bundles of anti-affinity groups by group and broker id. `splits` are sorted by urgency.
    """
    whole, unsplit = _drop_moves_of_unsplit(moves, splits, settings)
    kept, dropped = keep_within_budgets(order_by_urgency(whole, brokers), settings)
    dropped += unsplit
    # After splits, the first wave of moves is a small one too, but never larger than any other wave.
    pace = replace(settings, canary_steps=min(settings.canary_steps, settings.wave_steps)) if splits else settings
    while True:
        kept, too_full = drop_dependent_moves(kept, dropped, brokers)
        kept, needless = drop_needless_moves(kept, brokers)
        dropped += too_full + needless
        cut = cut_waves(kept, Occupancy(brokers, groups, settings), pace)
        if not cut.impossible:
            waves = tuple(tuple(kept[place] for place in wave) for wave in cut.waves)
            return Selection(waves, tuple(dropped), _select_splits(splits, kept, settings))
        dropped += [(kept[place], WAVE_ORDER) for place in cut.impossible]
        impossible = frozenset(cut.impossible)
        kept = [move for place, move in enumerate(kept) if place not in impossible]


def keep_within_budgets(moves: Iterable[PooledMove], settings: Settings) -> tuple[list[PooledMove], list[Dropped]]:
    """Keep the moves that fit the budgets, in the given order; the others are returned with the budget that refused.

    A move that does not fit does not end the selection: a cheaper one after it may still fit. The first child of a
    split that moves pays for the split too.
    """
    of_plan, of_any_wave = Ledger(PLAN_BUDGETS, settings), Ledger(WAVE_BUDGETS, settings)
    of_tenant: dict[str, Ledger] = {}
    kept: list[PooledMove] = []
    refused: list[Dropped] = []
    split: set[str | None] = {None}
    for move in moves:
        tenant = of_tenant.setdefault(move.tenant, Ledger(TENANT_BUDGETS, settings))
        parent = move.move.after_split_of
        cost = move.cost if parent in split else move.cost.plus(SPLIT_COST)
        # Waves are not known yet, but a bundle that exceeds the budget of a wave by itself fits into none.
        refusal = of_any_wave.refusal(cost) or tenant.refusal(cost) or of_plan.refusal(cost)
        if refusal is not None:
            refused.append((move, refusal))
            continue
        kept.append(move)
        split.add(parent)
        tenant.spend(cost)
        of_plan.spend(cost)
    return kept, refused


def drop_dependent_moves(
    moves: Sequence[PooledMove], dropped: Iterable[Dropped], brokers: Mapping[str, ClusterBroker]
) -> tuple[list[PooledMove], list[Dropped]]:
    """Drop moves into brokers that stay too full because other moves were dropped, least urgent first.

    A move is dropped by the same rule as the move off its destination. If no such move was dropped, the destination is
    full of other pools' bundles; a pool's own plan does not know whether those leave.
    """
    after = loads_after(brokers, moves)
    ceilings = _Ceilings(moves, brokers)
    rules: dict[str, str] = {}
    for move, rule in dropped:
        rules.setdefault(move.source, rule)
    arrivals: dict[str, list[int]] = defaultdict(list)
    for place, move in enumerate(moves):
        arrivals[move.destination].append(place)
    too_full: dict[int, str] = {}
    doubtful = sorted(arrivals)
    while doubtful:
        name = heapq.heappop(doubtful)
        while arrivals[name]:
            place = arrivals[name][-1]
            move = moves[place]
            if is_within(after[name], ceilings.of(move)):
                break
            arrivals[name].pop()
            too_full[place] = rules.get(name, FOREIGN_LOAD)
            after[name] = minus(after[name], move.move.load)
            # The bundle stays with its owner, which may be too full now.
            after[move.source] = plus(after[move.source], move.move.load)
            rules.setdefault(move.source, too_full[place])
            heapq.heappush(doubtful, move.source)
    kept = [move for place, move in enumerate(moves) if place not in too_full]
    return kept, [(moves[place], rule) for place, rule in sorted(too_full.items())]


def drop_needless_moves(
    moves: Sequence[PooledMove], brokers: Mapping[str, ClusterBroker]
) -> tuple[list[PooledMove], list[Dropped]]:
    """Drop moves for balance without which their source is inside its band all the same, least urgent first."""
    after = loads_after(brokers, moves)
    kept: list[PooledMove] = []
    needless: list[Dropped] = []
    for move in reversed(moves):
        source = brokers[move.source]
        stays = plus(after[move.source], move.move.load)
        # What Pulsar's own strategies decide is taken over as it is.
        is_for_balance = move.move.grounds is not None and not move.is_urgent and source.pool and not source.is_emptied
        if is_for_balance and is_within(stays, source.arrival_ceiling):
            after[move.source] = stays
            after[move.destination] = minus(after[move.destination], move.move.load)
            needless.append((move, NO_GAIN))
        else:
            kept.append(move)
    return kept[::-1], needless[::-1]


class _Ceilings:
    """How full a move may leave its destination."""

    def __init__(self, moves: Sequence[PooledMove], brokers: Mapping[str, ClusterBroker]) -> None:
        self._hard = {name: broker.hard_ceiling for name, broker in brokers.items()}
        # Repairs and relief of overload may fill a broker beyond its band; moves for balance may not add to that.
        urgent = loads_after(brokers, [move for move in moves if move.is_urgent])
        self._soft = {
            name: vector(max(pair) for pair in zip(broker.band_ceiling, urgent[name], strict=True))
            for name, broker in brokers.items()
        }

    def of(self, move: PooledMove) -> Vector:
        return self._hard[move.destination] if move.is_urgent else self._soft[move.destination]


def collect_splits(pool_plans: Iterable[PoolPlan]) -> list[PooledSplit]:
    """List the splits of all pools, most urgent first."""
    splits = [
        PooledSplit(plan.pool, plan.brokers[split.source].broker_id, split)
        for plan in pool_plans
        for split in plan.splits
    ]
    return sorted(splits, key=lambda pooled: (pooled.split.rank, pooled.bundle))


def _drop_moves_of_unsplit(
    moves: Sequence[PooledMove], splits: Sequence[PooledSplit], settings: Settings
) -> tuple[list[PooledMove], list[Dropped]]:
    """Drop the moves of children whose parent is not split because the plan has reached its most splits."""
    beyond = {pooled.bundle for pooled in splits[settings.max_number_of_bundles_to_split_per_cycle :]}
    kept = [move for move in moves if move.move.after_split_of not in beyond]
    return kept, [(move, SPLIT_BUDGET) for move in moves if move.move.after_split_of in beyond]


def _select_splits(splits: Sequence[PooledSplit], moves: Sequence[PooledMove], settings: Settings) -> SplitSelection:
    """Take the splits that the chosen moves need, then others while budgets last.

    A split disconnects no client, so only the number of steps and the number of splits are limited.
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
    """The steps that a plan and its tenants have left."""

    def __init__(self, tenants_of_steps: Iterable[str], settings: Settings) -> None:
        self._settings = settings
        self._of_plan = Ledger(PLAN_BUDGETS, settings)
        self._of_tenant: dict[str, Ledger] = {}
        for tenant, steps in Counter(tenants_of_steps).items():
            self._of_plan.spend(Cost(steps=steps))
            self._ledger_of(tenant).spend(Cost(steps=steps))

    def take_step(self, tenant: str) -> str | None:
        """Spend one step, or return the budget that refuses it."""
        of_tenant = self._ledger_of(tenant)
        refusal = of_tenant.refusal(SPLIT_COST) or self._of_plan.refusal(SPLIT_COST)
        if refusal is None:
            of_tenant.spend(SPLIT_COST)
            self._of_plan.spend(SPLIT_COST)
        return refusal

    def _ledger_of(self, tenant: str) -> Ledger:
        return self._of_tenant.setdefault(tenant, Ledger(TENANT_BUDGETS, self._settings))
