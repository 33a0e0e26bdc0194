"""Keeps a native library's debug lines out of our standard output, which belongs to the user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

STANDARD_OUTPUT = 1


@contextmanager
def without_library_chatter() -> Iterator[None]:
    """Send what native code writes to standard output meanwhile to nowhere; HiGHS prints a debug line now and then."""
    kept = os.dup(STANDARD_OUTPUT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, STANDARD_OUTPUT)
        yield
    finally:
        os.dup2(kept, STANDARD_OUTPUT)
        os.close(nowhere)
        os.close(kept)
