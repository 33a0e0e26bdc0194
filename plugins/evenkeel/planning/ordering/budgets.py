"""Keeps a plan within its budgets: per plan, per tenant and per wave, all of them hard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evenkeel.model.settings import Settings
from evenkeel.planning.ordering.cluster_brokers import PooledMove

CLIENT_MS_PER_SECOND = 1_000


class Cost(NamedTuple):
    """What budgets limit, in whole numbers."""

    steps: int = 0
    bytes_per_s: int = 0
    sessions: int = 0
    client_ms: int = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(*(mine + its for mine, its in zip(self, other, strict=True)))


SPLIT_COST = Cost(steps=1)
"""A split moves nothing and disturbs nobody: its topics stay open, with the same owner."""


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """A budget's name among the rejections, its setting, and the field of a cost that it limits."""

    name: str
    setting: str
    field: str

    def limit(self, settings: Settings) -> int | None:
        """The budget in the unit of its field, rounded down; None where it is not set."""
        value = getattr(settings, self.setting)
        return None if value is None else int(value * self.per_unit)

    @property
    def per_unit(self) -> int:
        """How much of the field is one of the setting's unit."""
        return CLIENT_MS_PER_SECOND if self.field == "client_ms" else 1


PLAN_BUDGETS = (
    BudgetRule("step-budget", "max_steps", "steps"),
    BudgetRule("bytes-budget", "max_moved_bytes_per_s", "bytes_per_s"),
    BudgetRule("sessions-budget", "max_moved_sessions", "sessions"),
    BudgetRule("disruption-budget", "max_client_seconds", "client_ms"),
)
TENANT_BUDGETS = (
    BudgetRule("tenant-step-budget", "tenant_max_steps", "steps"),
    BudgetRule("tenant-bytes-budget", "tenant_max_moved_bytes_per_s", "bytes_per_s"),
    BudgetRule("tenant-sessions-budget", "tenant_max_sessions", "sessions"),
    BudgetRule("tenant-disruption-budget", "tenant_max_client_seconds", "client_ms"),
)
# How many steps a wave has is no budget of this kind: what does not fit goes into the next wave.
WAVE_BUDGETS = (
    BudgetRule("wave-bytes-budget", "wave_max_moved_bytes_per_s", "bytes_per_s"),
    BudgetRule("wave-sessions-budget", "wave_max_sessions", "sessions"),
    BudgetRule("wave-disruption-budget", "wave_max_client_seconds", "client_ms"),
)


def cost_of(move: PooledMove) -> Cost:
    return Cost(1, move.bytes_per_s, move.move.sessions, move.client_ms)


class Ledger:
    """What was spent of the budgets of one scope."""

    def __init__(self, rules: Iterable[BudgetRule], settings: Settings) -> None:
        limits = [(rule, rule.limit(settings)) for rule in rules]
        self._limits = [
            (rule.name, Cost._fields.index(rule.field), limit) for rule, limit in limits if limit is not None
        ]
        self._spent = Cost()

    def refusal(self, cost: Cost) -> str | None:
        """The name of the first budget that has no room for a cost."""
        for name, place, limit in self._limits:
            if self._spent[place] + cost[place] > limit:
                return name
        return None

    def spend(self, cost: Cost) -> None:
        if self._limits:
            self._spent = self._spent.plus(cost)


def admit(moves: Iterable[PooledMove], settings: Settings) -> tuple[list[PooledMove], list[tuple[PooledMove, str]]]:
    """Keep the moves that fit, in the given order, and say of each other which budget has no room for it.

    A move that does not fit is left out, not the end: a cheaper one after it may still be taken. The first move of a
    split's children pays for the split too.
    """
    of_plan, of_any_wave = Ledger(PLAN_BUDGETS, settings), Ledger(WAVE_BUDGETS, settings)
    of_tenant: dict[str, Ledger] = {}
    kept: list[PooledMove] = []
    refused: list[tuple[PooledMove, str]] = []
    split: set[str | None] = {None}
    for move in moves:
        tenant = of_tenant.setdefault(move.tenant, Ledger(TENANT_BUDGETS, settings))
        parent = move.move.after_split_of
        cost = cost_of(move) if parent in split else cost_of(move).plus(SPLIT_COST)
        # Nothing is spent of a wave here: a bundle that exceeds it alone fits into none.
        refusal = of_any_wave.refusal(cost) or tenant.refusal(cost) or of_plan.refusal(cost)
        if refusal is not None:
            refused.append((move, refusal))
            continue
        kept.append(move)
        split.add(parent)
        tenant.spend(cost)
        of_plan.spend(cost)
    return kept, refused


def total_cost(moves: Sequence[PooledMove]) -> Cost:
    total = Cost()
    for move in moves:
        total = total.plus(cost_of(move))
    return total
