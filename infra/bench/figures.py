"""A measured value against its target, and rows of such figures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and the target that it is held to; without a target there is nothing to miss."""

    value: float
    target: float | None = None
    relation: Literal["at most", "below", "at least"] = "at most"

    @property
    def is_met(self) -> bool:
        if self.target is None:
            return True
        if self.relation == "at least":
            return self.value >= self.target
        return self.value < self.target if self.relation == "below" else self.value <= self.target

    def to_json(self) -> dict[str, Any]:
        # JSON knows no infinity, which a ratio to a bound of zero is.
        value, target = (
            number if number is None or math.isfinite(number) else None for number in (self.value, self.target)
        )
        return {"value": value, "target": target, "relation": self.relation, "ok": self.is_met}


class Row:
    """What is said about one subject; its fields are figures and plain values."""

    __slots__ = ()
    subject_fields: ClassVar[tuple[str, ...]] = ()

    @property
    def subject(self) -> str:
        return " ".join(str(getattr(self, name)) for name in self.subject_fields)

    def figures(self) -> Iterator[tuple[str, Figure]]:
        for name in self._names():
            value = getattr(self, name)
            if isinstance(value, Figure):
                yield name, value

    @property
    def is_met(self) -> bool:
        return all(figure.is_met for _, figure in self.figures())

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self._names()}
        return {name: value.to_json() if isinstance(value, Figure) else value for name, value in values.items()}

    def _names(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]  # rows are dataclasses


@dataclass(frozen=True, slots=True)
class Miss:
    """A figure that did not meet its target."""

    subject: str
    name: str
    figure: Figure

    def __str__(self) -> str:
        figure, name = self.figure, self.name.replace("_", " ")
        return f"{self.subject}: {name} is {figure.value:,.4g}, should be {figure.relation} {figure.target:,.4g}"


def find_misses(rows: Sequence[Row]) -> list[Miss]:
    """Every figure of these rows that did not meet its target."""
    return [Miss(row.subject, name, figure) for row in rows for name, figure in row.figures() if not figure.is_met]


def count_targets(rows: Sequence[Row]) -> int:
    """How many figures of these rows have a target."""
    return sum(figure.target is not None for row in rows for _, figure in row.figures())


def ratio(achieved: float, bound: float) -> float:
    """What was achieved over its bound; doing nothing where nothing is needed is perfect."""
    if bound:
        return achieved / bound
    return math.inf if achieved else 1.0
