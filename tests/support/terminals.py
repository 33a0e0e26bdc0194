"""A command at a terminal: it sees a person, and the person answers its question."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from support.commands import COMMAND_DEADLINE_S, EVENKEEL

READ_BYTES = 65_536
POLL_S = 0.2
SHOWN_CHARACTERS = 2_000


def converse(arguments: Sequence[object], question: str, answer: str, cwd: Path) -> tuple[int, str]:
    """Run `evenkeel` at a terminal and answer its one question; answers the exit code and all that was shown."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "160"}
    process = subprocess.Popen(
        [str(EVENKEEL), *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment
    )
    os.close(theirs)
    shown, is_answered = "", False
    deadline_s = time.monotonic() + COMMAND_DEADLINE_S
    try:
        while (chunk := _read(ours)) is not None or process.poll() is None:
            assert time.monotonic() < deadline_s, f"no end in sight: {shown[-SHOWN_CHARACTERS:]}"
            shown += chunk or ""
            if question in shown and not is_answered:
                os.write(ours, f"{answer}\n".encode())
                is_answered = True
        return process.wait(), shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read(terminal: int) -> str | None:
    """What was shown since; None if there is nothing, or nobody there any more."""
    if not select.select([terminal], [], [], POLL_S)[0]:
        return None
    try:
        return os.read(terminal, READ_BYTES).decode(errors="replace")
    except OSError:
        # The other side has closed the terminal.
        return None
