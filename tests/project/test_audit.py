"""`make audit` is clean only if every package was checked."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "infra" / "audit" / "audit.py"
AUDIT = runpy.run_path(str(SCRIPT))
CLEAN = {"name": "kazoo", "version": "2.11.0", "vulns": []}
BAD = {
    "name": "httpx",
    "version": "0.1",
    "vulns": [{"id": "PYSEC-1", "aliases": ["GHSA-1"], "fix_versions": ["0.2"], "description": ""}],
}
SKIPPED = {"name": "rich", "skip_reason": "Dependency not found on PyPI and could not be audited: rich (15)"}
EXCEPTION = {"GHSA-1": {"package": "httpx", "reason": "the code is never reached"}}


@pytest.mark.parametrize(
    ("dependencies", "exceptions", "told"),
    [
        ([CLEAN], {}, []),
        ([CLEAN, BAD], {}, ["httpx 0.1: PYSEC-1, fixed in 0.2"]),
        ([CLEAN, BAD], EXCEPTION, []),
        ([CLEAN], EXCEPTION, ["GHSA-1 in exceptions.toml no longer applies: remove it"]),
        ([CLEAN, SKIPPED], {}, ["1 of 2 packages could not be checked (rich, …)"]),
    ],
)
def test_package_that_is_vulnerable_or_was_not_checked_is_named(
    dependencies: list[Any], exceptions: dict[str, Any], told: list[str]
) -> None:
    assert AUDIT["judge"](dependencies, exceptions) == told


def test_every_exception_has_a_reason(tmp_path: Path) -> None:
    AUDIT["load_exceptions"](SCRIPT.with_name("exceptions.toml"))
    (tmp_path / "exceptions.toml").write_text('[GHSA-1]\npackage = "httpx"\nreason = " "\n')
    with pytest.raises(SystemExit, match="GHSA-1 needs a package and a reason"):
        AUDIT["load_exceptions"](tmp_path / "exceptions.toml")
