"""A rule that a plan breaks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """The rule, the order of the step that breaks it (None where it is the whole plan), and the breach in words."""

    rule: str
    order: int | None
    detail: str
