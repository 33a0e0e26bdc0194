"""Makes mutants and sets upon each what must catch it.

copy of the package with the mutant's text ──PYTHONPATH──▶ a worker of the campaign, or pytest with one test
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import evenkeel
from faults.campaign import Worker
from faults.cases import parse_case
from faults.mutants import ByCase, Mutant
from faults.servers import Layout, SharedServer
from faults.writer import TESTS
from support.waiting import scaled

PACKAGE = Path(evenkeel.__file__).parent
TEST_TIMEOUT_S = scaled(240.0)
TESTS_FAILED = 1
COVERAGE_VARIABLE = "EVENKEEL_TEST_COVERAGE"
RUN_TEST = (
    "import sys, evenkeel, pytest; assert evenkeel.__file__.startswith(sys.argv[1]), evenkeel.__file__; "
    "sys.exit(pytest.main(['-q', '-x', '--no-header', '-p', 'no:cacheprovider', sys.argv[2]]))"
)


class MutantError(Exception):
    """A mutant whose text is not in the package exactly once: the list has to follow the code."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """What became of a mutant."""

    mutant: Mutant
    is_caught: bool
    evidence: str
    seconds: float


def make(mutant: Mutant, folder: Path) -> Path:
    """A copy of the package with the mutant's text; returns the folder to put on the path."""
    # With the compiled files, which stay valid for all modules but the changed ones.
    shutil.copytree(PACKAGE, folder / PACKAGE.name)
    for edit in mutant.edits:
        file = folder / PACKAGE.name / edit.module
        text = file.read_text()
        found = text.count(edit.old)
        if found != 1:
            raise MutantError(f"mutant {mutant.name!r}: its text is {found} times in {edit.module}, not once")
        file.write_text(text.replace(edit.old, edit.new))
    return folder


def hunt(mutant: Mutant, folder: Path, hosts: str, server_folder: Path) -> Hunt:
    """Make a mutant, and let what is named for it catch it."""
    started_s = time.monotonic()
    path = make(mutant, folder)
    caught_by = mutant.caught_by
    if isinstance(caught_by, ByCase):
        is_caught, evidence = _run_case(caught_by, path, SharedServer(hosts, server_folder))
    else:
        is_caught, evidence = _run_test(caught_by.test, path)
    return Hunt(mutant, is_caught, evidence, time.monotonic() - started_s)


def _run_case(caught_by: ByCase, path: Path, server: SharedServer) -> tuple[bool, str]:
    worker = Worker(Layout.ONE, path, server)
    try:
        result = worker.run(parse_case(caught_by.case))
    finally:
        worker.end()
    if result is None:
        return False, "the worker died"
    for violation in result.violations:
        if violation.startswith(tuple(caught_by.breaks)):
            return True, violation
    return False, f"ended as {result.first!r} with {result.violations}"


def _run_test(test: str, path: Path) -> tuple[bool, str]:
    environment = {name: value for name, value in os.environ.items() if name != COVERAGE_VARIABLE}
    environment["PYTHONPATH"] = str(path)
    # Tests of a test run are no workers of it.
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    found = subprocess.run(
        [sys.executable, "-c", RUN_TEST, str(path), test],
        cwd=TESTS.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT_S,
    )
    lines = [line for line in found.stdout.splitlines() if line.startswith("FAILED")]
    evidence = lines[0] if lines else (found.stdout + found.stderr)[-2_000:]
    return found.returncode == TESTS_FAILED and bool(lines), evidence
