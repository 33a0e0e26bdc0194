"""JSON that others wrote, parsed in one place, and its fields proved to be of the types that are declared for them."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

MALFORMED = (AttributeError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError)
"""All that taking a document apart may raise which is not what it should be."""
LARGEST_WHOLE = 2**63 - 1
"""Java's largest long: what is beyond it, no Pulsar and no Evenkeel has written."""
LONGEST_SHOWN = 100

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = LONGEST_SHOWN


def parse_json(data: bytes | str) -> Any:
    """Parse a document; whatever is wrong with it is a ValueError, nesting without end included."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def show(value: Any) -> str:
    """A value for the sentence that refuses it: short, however long or deeply nested it is."""
    return _short.repr(value)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number; true and false are ints to Python, but not to whoever wrote the document."""
    return type(value) is int and -LARGEST_WHOLE - 1 <= value <= LARGEST_WHOLE


def require_types(record: type, fields: Mapping[str, Any]) -> None:
    """Raise a TypeError that names the first field whose value is not of the type that a dataclass declares.

    Absent and unknown fields are left to the constructor. An enum is its text here, a tuple a list, and a dataclass a
    map.
    """
    for name, declared in _declared_types(record).items():
        if name in fields and not _fits(fields[name], declared):
            raise TypeError(f"{name} = {show(fields[name])} is of the wrong type")


@cache
def _declared_types(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def _fits(value: Any, declared: Any) -> bool:
    if declared is Any:
        return True
    origin = get_origin(declared)
    if origin in (Union, UnionType):
        return any(_fits(value, choice) for choice in get_args(declared))
    if origin is tuple:
        return isinstance(value, list) and _fits_each(value, get_args(declared))
    if origin is Mapping:
        _, of_values = get_args(declared)
        return isinstance(value, dict) and all(_fits(item, of_values) for item in value.values())
    if isinstance(declared, type) and is_dataclass(declared):
        return isinstance(value, dict) and all(
            _fits(value[name], kind) for name, kind in _declared_types(declared).items() if name in value
        )
    return _fits_plain(value, declared)


def _fits_each(values: list[Any], declared: tuple[Any, ...]) -> bool:
    if declared[-1] is Ellipsis:
        return all(_fits(value, declared[0]) for value in values)
    return len(values) == len(declared) and all(map(_fits, values, declared))


def _fits_plain(value: Any, declared: type) -> bool:
    if declared is NoneType:
        return value is None
    if declared is int:
        return is_whole(value)
    if declared is float:
        # Written so that NaN, which no comparison accepts, is refused too.
        return type(value) in (int, float) and -sys.float_info.max <= value <= sys.float_info.max
    if issubclass(declared, str):
        return isinstance(value, str) and _can_be_written(value)
    return isinstance(value, declared)


def _can_be_written(text: str) -> bool:
    # Half a surrogate pair is JSON, but cannot be printed, stored or sent.
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
