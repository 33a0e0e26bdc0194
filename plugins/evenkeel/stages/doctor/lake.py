"""Probes of the lake: writing, put-if-absent and space. Nothing stays behind."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from evenkeel.adapters.lake.store import Lake
from evenkeel.stages.doctor.findings import Told, ok, problem, warning

SCARCE_BYTES = 2 * 1024**3
TOO_FEW_BYTES = 100 * 1024**2
_GIBIBYTE = 1024**3


def look_at_lake(lake: Lake) -> Iterable[Told]:
    """Write a file as artifacts are written, try to write it again, and remove it."""
    folder = Path(unquote(urlsplit(lake.uri).path))
    if not folder.is_dir():
        above = next(parent for parent in folder.parents if parent.is_dir())
        if not os.access(above, os.W_OK):
            yield problem("lake", f"{lake.uri} does not exist, and {above} cannot be written", "check the path")
            return
        yield warning(
            "lake", f"{lake.uri} does not exist", "check the path; the first `evenkeel snapshot` creates the folder"
        )
        return
    yield from _try_writing(lake, folder)
    free = shutil.disk_usage(folder).free
    told = f"{free / _GIBIBYTE:,.1f} GiB free"
    if free < TOO_FEW_BYTES:
        yield problem("lake space", told, "free some space: a full disk cuts off the records of a run")
    elif free < SCARCE_BYTES:
        yield warning("lake space", told, "free some space before the next window")
    else:
        yield ok("lake space", told)


def _try_writing(lake: Lake, folder: Path) -> Iterable[Told]:
    # Names that begin with a point are none of an artifact, so no reader ever sees these.
    name = f".doctor-{uuid.uuid4().hex}"
    first, second, target = (folder / f"{name}{end}" for end in (".a", ".b", ""))
    try:
        for file in (first, second):
            with open(file, "xb") as opened:
                opened.write(name.encode())
                opened.flush()
                os.fsync(opened.fileno())
        os.link(first, target)
        yield ok("lake writing", f"{lake.uri} can be written")
        yield _try_again(second, target)
    except OSError as error:
        remedy = "check the folder's owner, permissions and free space, and that its file system has hard links"
        yield problem("lake writing", f"{lake.uri} cannot be written ({error.strerror})", remedy)
    finally:
        for file in (first, second, target):
            file.unlink(missing_ok=True)


def _try_again(source: Path, target: Path) -> Told:
    try:
        os.link(source, target)
    except FileExistsError:
        return ok("lake put-if-absent", "of two writers exactly one wins")
    return problem(
        "lake put-if-absent",
        "the file system overwrote a file that exists, so two writers could both believe that they won",
        "put the lake on a POSIX file system",
    )
