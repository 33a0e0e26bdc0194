"""What a setting is: a dataclass field with a meaning, a range, and a conversion that does not guess."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from evenkeel.model.errors import InputError

Auto = Literal["auto"]
AUTO: Final = "auto"
"""The value of a threshold that follows the cluster's load instead of being a fixed number."""

Converter = Callable[[Any, str], Any]


def setting(
    default: Any,
    meaning: str,
    at_least: float | None = None,
    at_most: float | None = None,
    convert: Converter | None = None,
) -> Any:
    """Declare a setting; `convert` turns a plain value and its origin into what the type hint alone cannot tell."""
    metadata = {"meaning": meaning, "at_least": at_least, "at_most": at_most, "convert": convert, "has_auto": False}
    return dataclasses.field(default=default, metadata=metadata)


def auto_setting(default: Any, meaning: str, at_least: float) -> Any:
    """Declare a threshold that is a number or "auto"."""
    metadata = {"meaning": meaning, "at_least": at_least, "at_most": None, "convert": None, "has_auto": True}
    return dataclasses.field(default=default, metadata=metadata)


def choice_setting(default: str, meaning: str) -> Any:
    """Declare a setting whose type hint, a `Literal`, lists what may be chosen."""
    return setting(default, meaning)


def budget_setting(meaning: str) -> Any:
    """Declare a budget: a number from 0, or None, which sets no limit and is left out of a settings file."""
    return setting(None, meaning, 0)


def check_range(field: dataclasses.Field[Any], value: Any) -> None:
    """Refuse a value that is no number or lies outside the setting's range."""
    if value is None or (value == AUTO and field.metadata["has_auto"]):
        return
    low, high = field.metadata["at_least"], field.metadata["at_most"]
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{field.name} = {value} is no number", "choose a finite value")
    if low is not None and value < low:
        raise InputError(f"{field.name} = {value} is below {low}", "choose a larger value")
    if high is not None and value > high:
        raise InputError(f"{field.name} = {value} is above {high}", "choose a smaller value")


def convert_values(settings_type: type[Any], values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Turn TOML or JSON values into the types of a settings class; what does not fit is refused by name."""
    known = {field.name: field for field in dataclasses.fields(settings_type)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise InputError(f"{origin}: unknown key {unknown[0]!r}", "see `evenkeel settings` for all keys")
    hints = typing.get_type_hints(settings_type)
    return {key: _convert(known[key], hints[key], value, origin) for key, value in values.items()}


def _convert(field: dataclasses.Field[Any], hint: Any, value: Any, origin: str) -> Any:
    convert: Converter | None = field.metadata["convert"]
    has_auto: bool = field.metadata["has_auto"]
    if convert is not None and isinstance(value, list | tuple):
        return convert(value, origin)
    if has_auto and value == AUTO:
        return AUTO
    if typing.get_origin(hint) is Literal:
        return _choose(field.name, typing.get_args(hint), value, origin)
    is_optional = type(None) in typing.get_args(hint)
    if is_optional and value is None:
        return None
    # A threshold that may be on auto is hinted as "number | Auto", a budget as "number | None".
    plain = typing.get_args(hint)[0] if has_auto or is_optional else hint
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if plain in (float, int) and isinstance(value, plain) and not isinstance(value, bool):
        return value
    if plain in (bool, str) and isinstance(value, plain):
        return value
    if plain == tuple[str, ...] and isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return tuple(value)
    remedy = "see `evenkeel settings` for the default" + (', or write "auto"' if has_auto else "")
    raise InputError(f"{origin}: {field.name} = {value!r} has the wrong type", remedy)


def _choose(key: str, choices: tuple[str, ...], value: Any, origin: str) -> str:
    if value not in choices:
        raise InputError(f"{origin}: {key} = {value!r} is not known", f"choose one of {', '.join(choices)}")
    return str(value)
