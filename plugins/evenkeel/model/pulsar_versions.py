"""Releases of Pulsar, by a broker's own version: which were tested, which cannot work, and what differs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from evenkeel.model.errors import InputError

TESTED = ("3.0.7", "4.0.7", "4.2.4")
"""What `make matrix` runs; other patches of the same lines need no mention."""
OLDEST_LINE = (3, 0)
FIRST_LINE_WITH_METADATA_STORE_VIEW = (4, 0)
_LINE = re.compile(r"(\d{1,4})\.(\d{1,4})(\.|$)")
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)")
# The first release of each line in which brokers act on the removal of a key; later lines all do.
_FIRST_TO_REVERT = {(3, 0): 5, (3, 1): 4, (3, 2): 1}


def line_of(version: str) -> tuple[int, int] | None:
    """The release line of a version, such as (4, 2); None if it cannot be told."""
    match = _LINE.match(version)
    return None if match is None else (int(match[1]), int(match[2]))


def require_supported(versions: Mapping[str, str | None]) -> None:
    """Refuse brokers that are too old; the versions are given by broker."""
    for broker, version in versions.items():
        line = None if version is None else line_of(version)
        if line is not None and line < OLDEST_LINE:
            raise InputError(
                f"broker {broker} runs Pulsar {version}, which Evenkeel does not support",
                f"upgrade to 3.0 or later; tested are {tell_tested()}",
            )


def has_metadata_store_view(version: str) -> bool:
    """Whether brokers can keep bundle states in the metadata store; an unknown version counts as a later one."""
    line = line_of(version)
    return line is None or line >= FIRST_LINE_WITH_METADATA_STORE_VIEW


def require_metadata_store_view(versions: Mapping[str, str | None]) -> None:
    """Refuse brokers that are said to keep bundle states in the metadata store and cannot."""
    for broker, version in versions.items():
        if version is not None and not has_metadata_store_view(version):
            raise InputError(
                f"broker {broker} runs Pulsar {version}, which has no metadata-store table view, but its configuration "
                "names one",
                "upgrade it to 4.0 or later, or remove loadManagerServiceUnitStateTableViewClassName from broker.conf",
            )


def tell_untested(versions: Mapping[str, str | None]) -> list[str]:
    """One sentence for each version that was not tested."""
    tested = {line_of(version) for version in TESTED}
    brokers: dict[str, list[str]] = defaultdict(list)
    for broker, version in versions.items():
        if version is None or line_of(version) not in tested or "-" in version:
            brokers[version or "of an unknown version"].append(broker)
    return [
        f"{_tell_brokers(names)} Pulsar {version}; tested are {tell_tested()}. What differs in it is not known"
        for version, names in sorted(brokers.items())
    ]


def tell_tested() -> str:
    return f"{', '.join(TESTED[:-1])} and {TESTED[-1]}"


def reverts_removed_keys(version: str | None) -> bool:
    """Whether a running broker goes back to its own file when a key of the dynamic configuration is removed.

    Older ones keep the last value until they restart. One whose version is unknown counts as such.
    """
    found = _RELEASE.match(version or "")
    if found is None:
        return False
    major, minor, patch = map(int, found.groups())
    return patch >= _FIRST_TO_REVERT[major, minor] if (major, minor) in _FIRST_TO_REVERT else (major, minor) > (3, 2)


def _tell_brokers(names: list[str]) -> str:
    first, *others = sorted(names)
    return f"broker {first} and {len(others)} more run" if others else f"broker {first} runs"
