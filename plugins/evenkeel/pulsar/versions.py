"""The order of Pulsar versions: semantic versions, a pre-release before its release, build metadata aside."""

from __future__ import annotations

import re
from typing import TypeAlias

from evenkeel.model.errors import InputError

_NUMBER = r"(0|[1-9][0-9]*)"
_WORDS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORDS}))?(?:\+{_WORDS})?", re.ASCII)

Word: TypeAlias = tuple[bool, int, str]
VersionKey: TypeAlias = tuple[int, int, int, bool, tuple[Word, ...]]


def version_key(version: str | None) -> VersionKey:
    """A key that sorts versions as Pulsar's version filter does; equal keys are the same version to it."""
    match = _VERSION.fullmatch(version or "")
    if match is None:
        raise InputError(f"{version!r} is not a version", "write it as in 4.2.4 or 4.2.4-SNAPSHOT")
    major, minor, patch, pre_release = match.groups()
    words = tuple(_word_key(word) for word in pre_release.split(".")) if pre_release else ()
    return int(major), int(minor), int(patch), not words, words


def _word_key(word: str) -> Word:
    """Numbers come before words and are compared by value."""
    return (False, int(word), "") if word.isdecimal() else (True, 0, word)
