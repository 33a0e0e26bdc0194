"""The budgets of a plan, of each tenant and of each wave: what they limit, and how much of them is spent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from evenkeel.model.settings import Settings

CLIENT_MS_PER_SECOND = 1_000


class Cost(NamedTuple):
    """What budgets limit, in integers."""

    steps: int = 0
    bytes_per_s: int = 0
    sessions: int = 0
    client_ms: int = 0

    def plus(self, other: Cost) -> Cost:
        return Cost(*(mine + its for mine, its in zip(self, other, strict=True)))


SPLIT_COST = Cost(steps=1)
"""A split moves no load and disconnects no client: its topics stay open on the same owner."""


@dataclass(frozen=True, slots=True)
class BudgetRule:
    """A budget's name in the table of rejections, its setting, and the field of a cost that it limits."""

    name: str
    setting: str
    field: str

    def limit(self, settings: Settings) -> int | None:
        """The budget in the unit of its field, rounded down; None if it is not set."""
        value = getattr(settings, self.setting)
        return None if value is None else int(value * self.per_unit)

    @property
    def per_unit(self) -> int:
        """How many units of the field make one unit of the setting."""
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
# The number of steps of a wave is not a budget: a move that does not fit goes into the next wave.
WAVE_BUDGETS = (
    BudgetRule("wave-bytes-budget", "wave_max_moved_bytes_per_s", "bytes_per_s"),
    BudgetRule("wave-sessions-budget", "wave_max_sessions", "sessions"),
    BudgetRule("wave-disruption-budget", "wave_max_client_seconds", "client_ms"),
)


class Ledger:
    """What has been spent of the budgets of one scope: a plan, a tenant or a wave."""

    def __init__(self, rules: Iterable[BudgetRule], settings: Settings) -> None:
        limits = [(rule, rule.limit(settings)) for rule in rules]
        self._limits = [
            (rule.name, Cost._fields.index(rule.field), limit) for rule, limit in limits if limit is not None
        ]
        self._spent = Cost()

    def refusal(self, cost: Cost) -> str | None:
        """The name of the first budget that a cost would exceed; None if it fits."""
        for name, place, limit in self._limits:
            if self._spent[place] + cost[place] > limit:
                return name
        return None

    def spend(self, cost: Cost) -> None:
        if self._limits:
            self._spent = self._spent.plus(cost)
