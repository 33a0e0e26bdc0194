"""Figures and lists as text, the same in every sentence of a plan.

Plans store these sentences, so any change here changes plan ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.model.load import RESOURCES

# A sentence about many names lists this many of them.
LISTED_NAMES = 3


def percent(load: int, limit: int) -> str:
    """A load in percent of a limit, with one decimal."""
    return share(int(load) / int(limit)) if limit else "an unknown part"


def points(load: int, limit: int) -> str:
    """A difference of two loads in percentage points of a limit, with one decimal."""
    return f"{100 * int(load) / int(limit):.1f} points"


def share(part: float) -> str:
    """A fraction in percent, with one decimal."""
    return f"{100 * part:.1f} %"


def number(value: float) -> str:
    """A figure with thousands separators; with decimals only if it is not an integer."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.3f}"


def count(value: float, unit: str) -> str:
    """A figure with its unit, such as `1 step` or `2 bytes/s`."""
    noun, slash, per = unit.partition("/")
    return f"{number(value)} {noun if value == 1 else f'{noun}s'}{slash}{per}"


def list_some(names: Sequence[str], plural: str = "") -> str:
    """The first few names, and how many more there are."""
    more = len(names) - LISTED_NAMES
    rest = f" and {more:,} more {plural}".rstrip() if more > 0 else ""
    return ", ".join(names[:LISTED_NAMES]) + rest


def resource_name(resource: int) -> str:
    return RESOURCES[resource].replace("_", " ")


def limit_name(resource: int) -> str:
    """What a percentage is of, such as `bandwidth in limit`."""
    return f"{resource_name(resource)} limit"
