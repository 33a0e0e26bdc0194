"""What a business rule is: a function from a table to its breaches, each described in one sentence.

Every rule is written once, over Arrow tables, and knows nothing about where it runs: `suites` applies it to a table in
this process, `spark_suites` to the partitions of a Spark frame. A rule is registered under its function's name, which
is the name that the suites in `expectations/suites` use.
"""

from __future__ import annotations

import heapq
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# A check names this many breaches and counts the rest, so that a verdict stays short however bad the data is.
NAMED_BREACHES = 3


@dataclass(frozen=True, slots=True)
class Breach:
    """One breach of a rule; checks name those with the largest excess first, ties in order of the sentence."""

    detail: str
    excess: float = 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule about one table of a gate's data."""

    name: str
    table: str
    description: str
    find_breaches: Callable[..., Iterable[Breach]]
    columns: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the rule's parameters, which a suite gives as `kwargs`."""
        return tuple(inspect.signature(self.find_breaches).parameters)[1:]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found in some rows: how many breaches, the worst of them, or why it could not be applied."""

    count: int
    worst: tuple[Breach, ...]
    error: str | None = None

    @property
    def detail(self) -> str:
        """One sentence for all breaches: the worst by name, the rest by number."""
        named = self.worst[:NAMED_BREACHES]
        more = f" (and {self.count - len(named):,} more)" if self.count > len(named) else ""
        return "; ".join(breach.detail for breach in named) + more

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Finding:
        fields = json.loads(text)
        return cls(fields["count"], tuple(Breach(**breach) for breach in fields["worst"]), fields["error"])


RULES: dict[str, Rule] = {}


def rule(table: str, description: str, *columns: str) -> Callable[[Callable[..., Iterable[Breach]]], Rule]:
    """Register a function as the rule of its name; `columns` are those of the table that it reads, none for all."""

    def register(find_breaches: Callable[..., Iterable[Breach]]) -> Rule:
        name = find_breaches.__name__
        RULES[name] = Rule(name, table, description, find_breaches, columns)
        return RULES[name]

    return register


def load_rules() -> Mapping[str, Rule]:
    """All rules by name."""
    from evenkeel.gates import plan_rules, snapshot_rules  # noqa: F401  registers them

    return RULES


def apply_rule(applied: Rule, rows: pa.Table, kwargs: Mapping[str, Any]) -> Finding:
    """Apply a rule to a table; a rule that fails finds nothing out, which is not the same as finding nothing."""
    try:
        return _summarise(applied.find_breaches(rows, **kwargs))
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Finding(0, (), lines[0] if lines else type(error).__name__)


def merge_findings(parts: Sequence[Finding]) -> Finding:
    """What a rule found in all parts of a table."""
    errors = [part.error for part in parts if part.error is not None]
    if errors:
        return Finding(0, (), min(errors))
    worst = _worst(breach for part in parts for breach in part.worst)
    return Finding(sum(part.count for part in parts), worst)


def rows_where(rows: pa.Table, mask: Any, *names: str) -> Iterator[tuple[Any, ...]]:
    """The named columns of the rows that a mask selects (all of them without one), as Python values."""
    chosen = rows.select(names) if mask is None else rows.select(names).filter(mask)
    return zip(*(column.to_pylist() for column in chosen.columns), strict=True)


def _summarise(breaches: Iterable[Breach]) -> Finding:
    found = list(breaches)
    return Finding(len(found), _worst(found))


def _worst(breaches: Iterable[Breach]) -> tuple[Breach, ...]:
    return tuple(heapq.nsmallest(NAMED_BREACHES, breaches, key=lambda breach: (-breach.excess, breach.detail)))
