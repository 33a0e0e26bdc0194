"""Documents reduced to their fields and types, to be compared with captured ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
NAMED = "*"

Shape = Any


def load_capture(name: str) -> Any:
    """What real 4.2.4 brokers wrote or answered."""
    return json.loads((CAPTURES / f"pulsar-4.2.4-{name}.json").read_text())


def shape_of(value: Any, named_at: frozenset[str] = frozenset(), path: str = "") -> Shape:
    """A value reduced to its keys and types; maps at the given paths have names for keys."""
    match value:
        case dict() if path in named_at:
            members = [shape_of(member, named_at, f"{path}.{NAMED}") for member in value.values()]
            return {NAMED: merge(members)}
        case dict():
            return {key: shape_of(member, named_at, f"{path}.{key}") for key, member in value.items()}
        case list():
            return [merge([shape_of(member, named_at, f"{path}[]") for member in value])]
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case _:
            return "null"


def merge(shapes: list[Shape]) -> list[Shape]:
    """The different shapes among several, in a fixed order."""
    distinct: dict[str, Shape] = {json.dumps(shape, sort_keys=True): shape for shape in shapes}
    return [distinct[key] for key in sorted(distinct)]
