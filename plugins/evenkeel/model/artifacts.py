"""What every artifact in the lake carries, and what a reader insists on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from evenkeel.model.errors import InputError


def check_schema_version(fields: Mapping[str, Any], known: int, uri: str) -> None:
    """Refuse an artifact whose schema this library does not know."""
    found = fields.get("schema_version")
    if found != known:
        raise InputError(
            f"{uri} has schema version {found}, this library knows {known}",
            "read it with the library version that wrote it, or write it anew",
        )


@contextmanager
def decoding(what: str, uri: str) -> Iterator[None]:
    """Turn whatever goes wrong while an artifact is taken apart into one sentence that names it."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{uri} is not {what} ({error!r})", "restore the artifact, or make it anew") from error
