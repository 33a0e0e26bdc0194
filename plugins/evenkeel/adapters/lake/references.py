"""How people name a plan, a run or a snapshot: its full id, a prefix that only one has, or `latest`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from evenkeel.model.errors import InputError
from evenkeel.model.names import LONGEST_NAME, is_path_segment
from evenkeel.model.outside_json import show

LATEST = "latest"
MOST_CANDIDATES = 5
# Enough to tell two SHA-256 ids apart at a glance; ids that are short anyway are shown whole.
SHORTEST_PREFIX = 12
LONGEST_SHOWN_WHOLE = 40


@dataclass(frozen=True, slots=True)
class Candidates:
    """The artifacts of one kind that a reference may mean.

    `find_latest` is called only for `latest`, since finding the newest may need reading; None means there is none.
    `none_found` is what to say then, or where there are no artifacts at all: the cause and the remedy.
    """

    kind: str
    place: str
    ids: Sequence[str]
    find_latest: Callable[[], str | None]
    none_found: tuple[str, str]


def resolve_reference(reference: str, candidates: Candidates) -> str:
    """Return the full id that a reference stands for; raise InputError naming the nearest ids if there is not one."""
    if reference in candidates.ids:
        return reference
    if reference == LATEST:
        latest = candidates.find_latest()
        if latest is None:
            raise InputError(*candidates.none_found)
        return latest
    matches = [name for name in candidates.ids if reference and name.startswith(reference)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(
            f"{len(matches)} {candidates.kind}s {candidates.place} start with {show(reference)}",
            f"choose one of {_show(matches, candidates.ids)}",
        )
    if not candidates.ids:
        raise InputError(*candidates.none_found)
    nearest = _find_nearest(reference[:LONGEST_NAME], candidates.ids)
    raise InputError(
        f"no {candidates.kind} {show(reference)} {candidates.place}",
        f"the nearest {'is' if len(nearest) == 1 else 'are'} {_show(nearest, candidates.ids)}",
    )


def is_plain_name(reference: str) -> bool:
    """Whether a reference can be the name of one folder, so that it may be looked up without listing all of them."""
    return is_path_segment(reference) and len(reference) <= LONGEST_NAME


def _find_nearest(reference: str, ids: Sequence[str]) -> list[str]:
    """The ids whose beginnings look most like the reference: people mistype ids, and cut them short."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(reference)

    def likeness(name: str) -> float:
        matcher.set_seq1(name[: max(len(reference), 1)])
        return matcher.ratio()

    return sorted(ids, key=lambda name: (-likeness(name), name))[:MOST_CANDIDATES]


def _show(names: Sequence[str], ids: Sequence[str]) -> str:
    shown = ", ".join(_shorten(name, ids) for name in names[:MOST_CANDIDATES])
    left_out = len(names) - MOST_CANDIDATES
    return f"{shown} and {left_out} more" if left_out > 0 else shown


def _shorten(name: str, ids: Sequence[str]) -> str:
    """A prefix that can be pasted back as a reference."""
    if len(name) <= LONGEST_SHOWN_WHOLE:
        return name
    length = SHORTEST_PREFIX
    while sum(other.startswith(name[:length]) for other in ids) > 1:
        length += 1
    return name[:length]
