"""Judges a run's history by the invariants of the guarded writer, I1 to I11; each is one small function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from faults.history import History
from faults.invariants.bundles import find_illegal_changes, find_ring_faults
from faults.invariants.ends import find_other_ends, find_switches_left_off
from faults.invariants.findings import Findings
from faults.invariants.moments import find_forbidden_moments, find_overdue_flights
from faults.invariants.rules import find_broken_budgets, find_broken_rules
from faults.invariants.writing import find_repeated_steps, find_stale_writes, find_unjournalled_effects

INVARIANTS: Mapping[str, Callable[[History], Findings]] = {
    "I1": find_repeated_steps,
    "I2": find_stale_writes,
    "I3": find_illegal_changes,
    "I4": find_overdue_flights,
    "I5": find_ring_faults,
    "I6": find_broken_rules,
    "I7": find_broken_budgets,
    "I8": find_unjournalled_effects,
    "I9": find_other_ends,
    "I10": find_forbidden_moments,
    "I11": find_switches_left_off,
}


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that a history breaks, where, and how."""

    invariant: str
    zxid: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.invariant} at zxid {self.zxid:#x}: {self.sentence}"


def find_violations(history: History) -> list[Violation]:
    """Everything that is wrong with a run."""
    return [
        Violation(invariant, zxid, sentence)
        for invariant, find in INVARIANTS.items()
        for zxid, sentence in find(history)
    ]
