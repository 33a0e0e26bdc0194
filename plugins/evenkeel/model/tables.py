"""Declares tables once, as frozen dataclasses whose fields have comments.

`columns_of(Broker)` is the schema from which the lake makes Arrow types and Spark jobs make Spark types, so that a
column has one name, one type and one meaning everywhere.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Any

_MISSING: Any = dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, the Python type of its values, whether it may be null, and its meaning."""

    name: str
    type: type
    nullable: bool
    comment: str


def column(comment: str, default: Any = _MISSING) -> Any:
    """Declare a field of a table with its meaning."""
    return dataclasses.field(default=default, metadata={"comment": comment})


def columns_of(table: type) -> tuple[Column, ...]:
    """The columns of a table's dataclass in order of declaration."""
    hints = typing.get_type_hints(table)
    columns = []
    for field in dataclasses.fields(table):
        hint, nullable = hints[field.name], False
        if isinstance(hint, types.UnionType):
            (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
            nullable = True
        columns.append(Column(field.name, hint, nullable, field.metadata["comment"]))
    return tuple(columns)
