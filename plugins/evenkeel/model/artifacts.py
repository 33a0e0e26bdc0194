"""What every artifact in the lake carries, and what a reader insists on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import MALFORMED, show

_REMEDY = "restore the artifact, or make it anew"


def check_schema_version(fields: Mapping[str, Any], known: int, uri: str) -> None:
    """Refuse an artifact whose schema this library does not know, or that has none since it is no object."""
    if not isinstance(fields, Mapping):
        raise InputError(f"{uri} holds no JSON object", _REMEDY)
    found = fields.get("schema_version")
    if found != known:
        raise InputError(
            f"{uri} has schema version {show(found)}, this library knows {known}",
            "read it with the library version that wrote it, or write it anew",
        )


@contextmanager
def decoding(what: str, uri: str) -> Iterator[None]:
    """Turn whatever goes wrong while an artifact is taken apart into one sentence that names it."""
    try:
        yield
    except MALFORMED as error:
        raise InputError(f"{uri} is not {what} ({error!r})", _REMEDY) from error
