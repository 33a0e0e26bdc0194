"""JSON from outside, read field by field; a field that is not as it should be is refused by name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from evenkeel.adapters.machine import memory_bytes
from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import parse_json, show

# Far beyond any broker, and small enough that no sum over a cluster overflows.
LARGEST_FIGURE = 1e15
# Documents are parsed one at a time, and the estimate is a multiple of what usual ones take. The largest are a broker's
# statistics, with some kilobytes a topic.
MEMORY_SHARE = 2


class JsonObject:
    """An object with its origin, a path or URL, for the sentence that refuses it."""

    __slots__ = ("_fields", "_name", "_parent")

    def __init__(self, value: Any, name: str, parent: JsonObject | None = None) -> None:
        self._name = name
        self._parent = parent
        if not isinstance(value, dict):
            refuse(f"{self.origin} holds no JSON object")
        self._fields: Mapping[str, Any] = value

    @classmethod
    def decode(cls, data: bytes, origin: str) -> JsonObject:
        return cls(decode_json(data, origin), origin)

    @property
    def origin(self) -> str:
        """Where the object is; built only for a refusal, since statistics hold a great many objects."""
        return self._name if self._parent is None else f"{self._parent.origin}: {self._name}"

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def names(self) -> list[str]:
        return list(self._fields)

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        # Lone surrogates and control characters are valid JSON, but not in an address, version or class name.
        if not isinstance(value, str) or not value or not value.isprintable():
            refuse(f"{self.origin}: {name} = {show(value)} is not a text")
        return value

    def optional_text(self, name: str) -> str | None:
        return self.text(name) if self._fields.get(name) not in (None, "") else None

    def flag(self, name: str) -> bool:
        """True or false; an absent one is false."""
        value = self._fields.get(name, False)
        if not isinstance(value, bool):
            refuse(f"{self.origin}: {name} = {show(value)} is neither true nor false")
        return value

    def number(self, name: str) -> float:
        """Any finite number."""
        value = self._fields.get(name)
        # bool is an int to Python, but not to whoever wrote the document.
        if type(value) is not float and type(value) is not int:
            refuse(f"{self.origin}: {name} = {show(value)} is not a number")
        # Written so that NaN, which no comparison accepts, is refused too.
        if not -LARGEST_FIGURE <= value <= LARGEST_FIGURE:
            refuse(f"{self.origin}: {name} = {show(value)} is not a figure that can be")
        return float(value)

    def figure(self, name: str, default: float | None = None) -> float:
        """A rate, usage or percentage: never below zero."""
        if default is not None and self._fields.get(name) is None:
            return default
        value = self.number(name)
        if value < 0:
            refuse(f"{self.origin}: {name} = {show(value)} is negative")
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number that is not negative."""
        value = self.figure(name, default)
        if math.floor(value) != value:
            refuse(f"{self.origin}: {name} = {show(value)} is not a whole number")
        return int(value)

    def items_of(self, name: str) -> list[Any]:
        """A list; an absent one is empty, because Pulsar leaves out what is null."""
        value = self._fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            refuse(f"{self.origin}: {name} is not a list")
        return value

    def object(self, name: str) -> JsonObject:
        """An object; an absent one is empty, because Pulsar leaves out what is null."""
        value = self._fields.get(name)
        return JsonObject({} if value is None else value, name, self)

    def objects(self) -> Iterator[tuple[str, JsonObject]]:
        """Every field as an object of its own."""
        for name, value in self._fields.items():
            yield name, JsonObject(value, name, self)


def decode_json(data: bytes, origin: str) -> Any:
    try:
        return parse_json(data, memory_bytes() // MEMORY_SHARE)
    except ValueError as error:
        raise InputError(f"{origin} is not JSON ({error})", "repair the document, or restart what writes it") from error


def refuse(cause: str) -> NoReturn:
    raise InputError(cause, "repair the document, or restart what writes it")
