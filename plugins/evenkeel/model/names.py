"""Names: those that become paths, in the lake or in ZooKeeper, are checked first; unknown ones get a suggestion."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import show

LONGEST_NAME = 200
"""A file name may have 255 bytes, and some have a prefix or a suffix."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CLUSTER = re.compile(r"[-=:.\w]+", re.ASCII)
_BROKER = re.compile(r"[-.:\[\]\w]+", re.ASCII)


def is_path_segment(name: str) -> bool:
    """Whether a name stays one step of a path wherever it is put: no separator, no way up, no control character."""
    return name not in ("", ".", "..") and "/" not in name and _CONTROL.search(name) is None


def require_path_segment(name: str, what: str) -> str:
    """Return a name that is to be one step of a path; anything that would lead elsewhere is refused."""
    if not is_path_segment(name):
        raise InputError(f"{show(name)} is not {what}", "give the name of one node or file, without slashes")
    return name


def require_cluster_name(name: str) -> str:
    """Return a cluster's name; what Pulsar would not accept as one is refused."""
    if not _CLUSTER.fullmatch(name) or not is_path_segment(name):
        raise InputError(f"{show(name)} is not a cluster name", "use letters, digits, - = : . and _ only")
    return _require_short(name, "cluster name")


def require_broker_id(name: str) -> str:
    """Return a broker's id; what cannot be host:port is refused."""
    if not _BROKER.fullmatch(name) or not is_path_segment(name):
        raise InputError(f"{show(name)} is not a broker id", "give it as Pulsar lists it, host:port")
    return _require_short(name, "broker id")


def _require_short(name: str, what: str) -> str:
    if len(name) > LONGEST_NAME:
        raise InputError(f"{show(name)} has {len(name):,} characters, too many for a {what}", "check the name")
    return name


def suggest(wanted: str, known: Iterable[str]) -> str:
    """Return "did you mean …?" for what is close to a name, else a list of what there is; empty where there is none."""
    known = sorted(known)
    close = difflib.get_close_matches(wanted, known)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"use one of {', '.join(known)}" if known else ""
