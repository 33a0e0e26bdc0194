"""The command `evenkeel` as a user runs it: a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVENKEEL = Path(sys.executable).with_name("evenkeel")
COMMAND_DEADLINE_S = 240.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


def evenkeel(*arguments: object, cwd: Path | None = None, deadline_s: float = COMMAND_DEADLINE_S) -> Answer:
    """Run `evenkeel` with arguments and wait for its end."""
    done = subprocess.run(
        [str(EVENKEEL), *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)
