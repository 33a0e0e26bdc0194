"""The judge's verdict on a list of steps, whoever planned them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evenkeel.model.canonical import digest
from infra.bench.workroom import Workroom, run_program

Verdict = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judge:
    """Runs the given judge as a program of its own, so that nothing of ours can sway it."""

    program: Path
    workroom: Workroom

    def judge(self, folder: Path, steps: Sequence[Mapping[str, Any]], tolerance: float) -> Verdict:
        """Judge steps on the cluster of a folder; the same steps are judged once."""
        inputs = {
            "judge": self.workroom.digest_of(self.program),
            "cluster": self.workroom.digest_of_cluster(folder),
            "steps": digest(steps),
            "tolerance": repr(tolerance),
        }
        verdict: Verdict = self.workroom.answer("verdicts", inputs, lambda: self._run(folder, steps, tolerance))
        return verdict

    def _run(self, folder: Path, steps: Sequence[Mapping[str, Any]], tolerance: float) -> Any:
        with TemporaryDirectory() as room:
            file = Path(room) / "steps.json"
            file.write_text(json.dumps(steps))
            command = [sys.executable, self.program, folder, file, "--tolerance", repr(tolerance)]
            return json.loads(run_program(command, f"judging a plan of {folder.name}"))
