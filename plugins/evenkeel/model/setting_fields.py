"""How settings are declared: dataclass fields with a meaning, a range, who uses them, and a strict conversion."""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Literal

from evenkeel.model.errors import InputError

Auto = Literal["auto"]
AUTO: Final = "auto"
"""The value of a threshold that follows the cluster's load instead of being a fixed number."""


class SettingUse(StrEnum):
    """Who reads a setting."""

    EVENKEEL = "evenkeel"
    """Evenkeel itself; it may change plans or runs."""
    REPLAY = "replay"
    """Only the replay of Pulsar's own strategies, for their plans and for the comparison in every plan."""
    NOTHING = "nothing"
    """Nothing: it is accepted so that the settings of a Pulsar cluster can be pasted as they are."""


Converter = Callable[[Any, str], Any]


def setting(
    default: Any,
    meaning: str,
    at_least: float | None = None,
    at_most: float | None = None,
    convert: Converter | None = None,
    used_by: SettingUse = SettingUse.EVENKEEL,
    has_auto: bool = False,
) -> Any:
    """Declare a setting; `convert` builds values that the type hint alone does not describe."""
    metadata = {
        "meaning": meaning,
        "at_least": at_least,
        "at_most": at_most,
        "convert": convert,
        "used_by": used_by,
        "has_auto": has_auto,
    }
    return dataclasses.field(default=default, metadata=metadata)


def auto_setting(default: Any, meaning: str, at_least: float, used_by: SettingUse = SettingUse.EVENKEEL) -> Any:
    """Declare a threshold that is a number or "auto"."""
    return setting(default, meaning, at_least, used_by=used_by, has_auto=True)


def choice_setting(default: str, meaning: str) -> Any:
    """Declare a setting whose type hint is a `Literal` of the choices."""
    return setting(default, meaning)


def budget_setting(meaning: str) -> Any:
    """Declare a budget: a number from 0, or None for no limit, which a settings file leaves out."""
    return setting(None, meaning, 0)


def check_range(field: dataclasses.Field[Any], value: Any) -> None:
    """Refuse a value that is not finite or lies outside the setting's range."""
    if value is None or (value == AUTO and field.metadata["has_auto"]):
        return
    low, high = field.metadata["at_least"], field.metadata["at_most"]
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{field.name} = {value} is not a finite number", "choose a finite value")
    if low is not None and value < low:
        raise InputError(f"{field.name} = {value} is below {low}", "choose a larger value")
    if high is not None and value > high:
        raise InputError(f"{field.name} = {value} is above {high}", "choose a smaller value")


def convert_values(settings_type: type[Any], values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Convert TOML or JSON values to the types of a settings class; an unknown key or a wrong value is refused."""
    known = {field.name: field for field in dataclasses.fields(settings_type)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise InputError(f"{origin}: unknown setting {unknown[0]!r}", _suggest(unknown[0], known))
    hints = typing.get_type_hints(settings_type)
    return {key: _convert(known[key], hints[key], value, origin) for key, value in values.items()}


def _suggest(key: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]!r}?" if close else "`evenkeel settings` lists all settings"


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
    remedy = "`evenkeel settings` shows the default" + ('; "auto" is allowed too' if has_auto else "")
    raise InputError(f"{origin}: {field.name} = {value!r} has the wrong type", remedy)


def _choose(key: str, choices: tuple[str, ...], value: Any, origin: str) -> str:
    if value not in choices:
        raise InputError(f"{origin}: {key} = {value!r} is not a choice", f"choose one of {', '.join(choices)}")
    return str(value)
