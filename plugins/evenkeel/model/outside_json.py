"""Reading JSON from outside: parse it, check schema versions and field types, and build records from it."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from evenkeel.model.errors import InputError
from evenkeel.model.timestamps import parse_time

MALFORMED = (AttributeError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError)
"""Everything that decoding a malformed document may raise."""
LARGEST_WHOLE = 2**63 - 1
"""Java's largest long: neither Pulsar nor Evenkeel writes anything larger."""
LONGEST_SHOWN = 100
_MEGABYTE = 1_000_000
MOST_MEMORY_BYTES = 512 * 1024 * 1024
"""What parsing a document may take, unless its reader allows more: nothing that Evenkeel writes comes near it."""
_REMEDY = "restore it, or create it again"
# Upper bounds of what CPython allocates for an object, a list and any other value, with its place in its parent while
# that grows.
_OBJECT_BYTES, _LIST_BYTES, _VALUE_BYTES = 240, 96, 160
# The whole is held as text beside the strings cut from it. One wide character makes both four bytes a character.
_PLAIN_TEXT_FACTOR, _WIDE_TEXT_FACTOR = 3, 9

Record = TypeVar("Record")

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = LONGEST_SHOWN


def parse_json(data: bytes | str, most_memory_bytes: int = MOST_MEMORY_BYTES) -> Any:
    """Parse a document; any fault is a ValueError, endless nesting and one that would fill the memory included."""
    needed = estimate_memory(data)
    if needed > most_memory_bytes:
        limit = f"{most_memory_bytes / _MEGABYTE:,.0f} MB"
        raise ValueError(f"it could take {needed / _MEGABYTE:,.0f} MB of memory, the limit is {limit}")
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def estimate_memory(data: bytes | str) -> int:
    """The most memory in bytes that parsing a document can take, found without parsing it.

    Three bytes such as `{},` become 72. So brackets and commas are counted, those inside of strings included: a bound
    that is too high for odd documents costs nothing, one that is too low could cost the machine.
    """
    text = data.encode(errors="replace") if isinstance(data, str) else data
    is_wide = not text.isascii() or b"\\u" in text
    return (
        _OBJECT_BYTES * text.count(b"{")
        + _LIST_BYTES * text.count(b"[")
        + _VALUE_BYTES * text.count(b",")
        + len(text) * (_WIDE_TEXT_FACTOR if is_wide else _PLAIN_TEXT_FACTOR)
    )


def show(value: Any) -> str:
    """A value as it appears in a message: short, however long or deeply nested it is."""
    return _short.repr(value)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number; true and false are ints in Python, but not in JSON."""
    return type(value) is int and -LARGEST_WHOLE - 1 <= value <= LARGEST_WHOLE


def check_schema_version(fields: Mapping[str, Any], known: int, uri: str) -> None:
    """Refuse an artifact of an unknown schema version, or one that is not an object."""
    if not isinstance(fields, Mapping):
        raise InputError(f"{uri} is not a JSON object", _REMEDY)
    found = fields.get("schema_version")
    if found != known:
        raise InputError(
            f"{uri} has schema version {show(found)}, this version of Evenkeel reads {known}",
            "read it with the version that wrote it, or create it again",
        )


@contextmanager
def decoding(what: str, uri: str) -> Iterator[None]:
    """Turn any decoding fault into one sentence that names the artifact."""
    try:
        yield
    except MALFORMED as error:
        raise InputError(f"{uri} is not {what} ({error!r})", _REMEDY) from error


def require_types(record: type, fields: Mapping[str, Any]) -> None:
    """Raise a TypeError that names the first field whose value is not of the type that a dataclass declares.

    The constructor deals with missing and unknown fields. Enums are strings here, tuples lists, and dataclasses maps.
    """
    for name, declared in _declared_types(record).items():
        if name in fields and not _fits(fields[name], declared):
            raise TypeError(f"{name} = {show(fields[name])} is of the wrong type")


def read_record(record: type[Record], value: Any, where: str = "") -> Record:
    """Build a dataclass from a JSON object that has exactly its fields, each of its declared type.

    Anything else raises a TypeError or a ValueError that names the place, such as `balance.after.cpu.max`.
    """
    if not isinstance(value, dict):
        raise TypeError(f"{where or 'it'} = {show(value)} is not an object")
    declared = _declared_types(record)  # type: ignore[arg-type]  # classes are hashable
    for names, fault in ((value.keys() - declared.keys(), "unknown"), (declared.keys() - value.keys(), "missing")):
        if names:
            raise TypeError(f"{_join(where, min(names))} is {fault}")
    return record(**{name: _read(declared[name], item, _join(where, name)) for name, item in value.items()})


def _read(declared: Any, value: Any, where: str) -> Any:
    origin, choices = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        if value is None and NoneType in choices:
            return None
        (declared,) = (choice for choice in choices if choice is not NoneType)
        return _read(declared, value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_read(choices[0], item, f"{where}[{place}]") for place, item in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        of_keys, of_values = choices
        return {_read(of_keys, key, where): _read(of_values, item, _join(where, key)) for key, item in value.items()}
    if isinstance(declared, type) and is_dataclass(declared):
        return read_record(declared, value, where)
    if declared is datetime and isinstance(value, str):
        return parse_time(value)
    if not _fits(value, declared):
        raise TypeError(f"{where} = {show(value)} is of the wrong type")
    return declared(value) if isinstance(declared, type) and issubclass(declared, Enum) else value


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


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
