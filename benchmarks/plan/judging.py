"""Runs the judge on a list of steps, whoever planned them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.clusters import generate, judge
from benchmarks.plan.cache import Cache, run_program
from evenkeel.model.canonical import digest
from evenkeel.model.errors import InputError

OWN_GENERATOR, OWN_JUDGE = Path(generate.__file__), Path(judge.__file__)

Verdict = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judge:
    """Runs the judge as a separate program, so that another one can take its place."""

    program: Path
    cache: Cache

    def judge(self, folder: Path, steps: Sequence[Mapping[str, Any]], tolerance: float) -> Verdict:
        """The verdict on steps for the cluster of a folder; the same steps are judged once."""
        inputs = {
            "judge": self.cache.digest_of(self.program),
            "cluster": self.cache.digest_of_cluster(folder),
            "steps": digest(steps),
            "tolerance": repr(tolerance),
        }
        verdict: Verdict = self.cache.result("verdicts", inputs, lambda: self._run(folder, steps, tolerance))
        return verdict

    def _run(self, folder: Path, steps: Sequence[Mapping[str, Any]], tolerance: float) -> Any:
        with TemporaryDirectory() as temporary:
            file = Path(temporary) / "steps.json"
            file.write_text(json.dumps(steps))
            command = [sys.executable, self.program, folder, file, "--tolerance", repr(tolerance)]
            return json.loads(run_program(command, f"judging a plan of {folder.name}"))


def require_program(program: Path, option: str) -> Path:
    """A program that was named on the command line, as an absolute path."""
    if not program.is_file():
        raise InputError(f"{option} {program} is not a file", f"name a Python program, or leave {option} out")
    return program.resolve()
