"""The command `evenkeel` as a user runs it: a separate process, with or without a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from evenkeel.cli.app import app
from support.waiting import scaled

READ_BYTES = 65_536
POLL_S = 0.2
SHOWN_CHARACTERS = 2_000
EVENKEEL = Path(sys.executable).with_name("evenkeel")
COMMAND_DEADLINE_S = 240.0
UNSIGNED = Path(__file__).parents[1] / "data" / "unsigned.toml"
"""A configuration file by which nobody has to sign approvals."""


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


def evenkeel(
    *arguments: object,
    cwd: Path | None = None,
    deadline_s: float = COMMAND_DEADLINE_S,
    env: Mapping[str, object] | None = None,
) -> Answer:
    """Run `evenkeel` with arguments and wait for its end; what the developer's own shell says about it is left out."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("EVENKEEL_")}
    done = subprocess.run(
        [str(EVENKEEL), *map(str, arguments)],
        cwd=cwd,
        env=inherited | {name: str(value) for name, value in (env or {}).items()},
        capture_output=True,
        text=True,
        timeout=scaled(deadline_s),
        check=False,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def live_options(zookeeper: str, pulsar_root: str) -> tuple[str, ...]:
    """The options of a cluster that shares its ZooKeeper and its name, but no Evenkeel root, with other tests'."""
    return ("--zookeeper", zookeeper, "--pulsar-root", pulsar_root, "--evenkeel-root", f"{pulsar_root}/evenkeel")


def evenkeel_here(*arguments: object, env: Mapping[str, object] | None = None) -> Answer:
    """Run `evenkeel` in this process, which takes a fraction of the time: for refusals, which are many."""
    given = {name: None for name in os.environ if name.startswith("EVENKEEL_")}
    given |= {name: str(value) for name, value in (env or {}).items()}
    done = CliRunner().invoke(app, list(map(str, arguments)), env=given)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Answer(done.exit_code, done.stdout, done.stderr)


def converse(arguments: Sequence[object], question: str, answer: str, cwd: Path) -> tuple[int, str]:
    """Run `evenkeel` at a terminal and answer its one question; returns the exit code and everything shown."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "160"}
    process = subprocess.Popen(
        [str(EVENKEEL), *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment
    )
    os.close(theirs)
    shown, is_answered = "", False
    deadline_s = time.monotonic() + scaled(COMMAND_DEADLINE_S)
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
    """What was shown since the last read; None if nothing was, or if the process has closed the terminal."""
    if not select.select([terminal], [], [], POLL_S)[0]:
        return None
    try:
        return os.read(terminal, READ_BYTES).decode(errors="replace")
    except OSError:
        # The other side has closed the terminal.
        return None
