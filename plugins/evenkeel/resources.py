"""Files that belong to Evenkeel but to no package: Dags, job files, suites."""

from __future__ import annotations

import sys
from pathlib import Path

from evenkeel.model.errors import InputError


def find_resource(relative: str) -> Path:
    """A file or folder by its path in the project: in a checkout, or below `share` of an installation."""
    checkout = Path(__file__).resolve().parents[2] / relative
    installed = Path(sys.prefix) / "share" / "evenkeel" / relative
    for candidate in (checkout, installed):
        if candidate.exists():
            return candidate
    raise InputError(f"{installed} is missing", "install Evenkeel again")
