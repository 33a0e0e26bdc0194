"""Child processes that surely end with their parent, even when the parent is killed.

    parent ──(pipe)──▶ supervisor ──▶ child and its process group

The supervisor reads the pipe. As long as the parent lives the pipe stays open; when the parent ends, for
whatever reason, the operating system closes it and the supervisor ends the child. This needs nothing that
only one operating system has. The supervisor has a session of its own, so that Ctrl-C in a terminal reaches
the parent alone, which then decides what to end in which order.

What it cannot do: a child that leaves its process group, or a supervisor that is itself killed by SIGKILL.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from evenkeel.model.errors import UnavailableError

DEFAULT_GRACE_S = 10.0
SUPERVISOR_MARGIN_S = 5.0
SIGNAL_EXIT_BASE = 128
USAGE_EXIT_CODE = 2
COMMAND_NOT_FOUND_EXIT_CODE = 127
STANDARD_INPUT = 0
READ_BYTES = 1024

_log = logging.getLogger(__name__)


class SupervisedProcess:
    """A command that runs until it is stopped or its parent ends; its output goes to a log file."""

    def __init__(
        self,
        command: Sequence[str],
        log_path: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._command = list(command)
        self._log_path = log_path
        self._env = dict(env) if env is not None else None
        self._cwd = cwd
        self._supervisor: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the command; returns without waiting for it to be ready."""
        if self._supervisor is not None:
            raise ValueError("the process was started already; make a new SupervisedProcess")
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("ab") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", "evenkeel.fleet.supervised", "--", *self._command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id of the supervisor, which lives as long as the command."""
        return self._started().pid

    @property
    def log_path(self) -> Path:
        return self._log_path

    def poll(self) -> int | None:
        """The exit code of the command, or None while it runs; 128 + n when signal n ended it."""
        return self._started().poll()

    def wait(self, timeout_s: float) -> int:
        """Wait for the command to end by itself and return its exit code."""
        try:
            return self._started().wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(
                f"{self._command[0]} still runs after {timeout_s:g} s", f"read {self._log_path}"
            ) from error

    def stop(self, grace_s: float = DEFAULT_GRACE_S) -> int:
        """Ask the command to end, kill it after the grace time, and return its exit code."""
        supervisor = self._started()
        if supervisor.stdin is not None and not supervisor.stdin.closed:
            try:
                supervisor.stdin.write(f"{grace_s}\n".encode())
                supervisor.stdin.close()
            except BrokenPipeError:
                _log.debug("%s had already ended", self._command[0])
        return self.wait(grace_s + SUPERVISOR_MARGIN_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._supervisor is None:
            raise ValueError("the process was not started; call start() first")
        return self._supervisor


def run_supervisor(command: Sequence[str]) -> int:
    """Run a command until it ends or standard input does; returns the exit code to end with."""
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return COMMAND_NOT_FOUND_EXIT_CODE
    threading.Thread(target=_end_with_parent, args=(child,), daemon=True).start()

    def end_child(_signal: int, _frame: FrameType | None) -> None:
        threading.Thread(target=_end_group, args=(child, DEFAULT_GRACE_S), daemon=True).start()

    signal.signal(signal.SIGTERM, end_child)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = child.wait()
    _signal_group(child, signal.SIGKILL)
    return SIGNAL_EXIT_BASE - code if code < 0 else code


def _end_with_parent(child: subprocess.Popen[bytes]) -> None:
    # The parent may write a grace time before it closes the pipe; a killed parent writes nothing.
    # Read without Python's buffers, whose lock would keep the interpreter from ending while this waits.
    text = b""
    while chunk := os.read(STANDARD_INPUT, READ_BYTES):
        text += chunk
    try:
        grace_s = float(text) if text else DEFAULT_GRACE_S
    except ValueError:
        grace_s = DEFAULT_GRACE_S
    _end_group(child, grace_s)


def _end_group(child: subprocess.Popen[bytes], grace_s: float) -> None:
    _signal_group(child, signal.SIGTERM)
    try:
        child.wait(grace_s)
    except subprocess.TimeoutExpired:
        _signal_group(child, signal.SIGKILL)


def _signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        # Nobody is left in the group; macOS says so with "not permitted" for a zombie.
        return


def main(arguments: Sequence[str]) -> int:
    """The supervisor's command line: everything after `--` is the command."""
    if len(arguments) < 2 or arguments[0] != "--":
        sys.stderr.write("usage: python -m evenkeel.fleet.supervised -- COMMAND [ARGUMENT]...\n")
        return USAGE_EXIT_CODE
    return run_supervisor(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
