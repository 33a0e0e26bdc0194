"""A rule that a plan breaks."""

from __future__ import annotations

from dataclasses import dataclass

GOALS = frozenset({"overload", "worse-peak"})
"""Rules that speak of balance alone: a planner must keep them, a person who chose the steps may overrule them."""


@dataclass(frozen=True, slots=True)
class Violation:
    """The rule, the order of the step that breaks it (None where it is the whole plan), and the breach in words."""

    rule: str
    order: int | None
    detail: str
