"""Child processes that end with their parent, even when the parent is killed.

    parent ──(pipe)──▶ supervisor ──▶ child, its process group, its session

The supervisor reads the pipe. When the parent ends, for whatever reason, the operating system closes the pipe and the
supervisor ends the child; this works on every operating system. The supervisor has a session of its own, so Ctrl-C in
a terminal reaches the parent alone, which then decides what to end in which order.

Airflow puts each task into a process group of its own, so a signal to the scheduler's group does not reach the tasks.
They do stay in its session: `ends_session` makes the supervisor end whatever is left there.

What it cannot do: end a child that starts a session of its own, or end anything after the supervisor itself was killed
with SIGKILL.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
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
SESSION_OPTION = "--whole-session"
SESSION_GRACE_S = 2.0
POLL_S = 0.1

_log = logging.getLogger(__name__)


class SupervisedProcess:
    """A command that runs until it is stopped or its parent ends; its output goes to a log file.

    With `ends_session`, processes that left the command's process group but not its session are ended too.
    """

    def __init__(
        self,
        command: Sequence[str],
        log_path: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ends_session: bool = False,
    ) -> None:
        self._command = list(command)
        self._log_path = log_path
        self._env = dict(env) if env is not None else None
        self._cwd = cwd
        self._ends_session = ends_session
        self._supervisor: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the command; returns without waiting for it to be ready."""
        if self._supervisor is not None:
            raise ValueError("the process has already been started; make a new SupervisedProcess")
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        options = [SESSION_OPTION] if self._ends_session else []
        with self._log_path.open("ab") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", "evenkeel.local.supervised", *options, "--", *self._command],
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
                f"{self._command[0]} is still running after {timeout_s:g} s", f"read {self._log_path}"
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


def run_supervisor(command: Sequence[str], ends_session: bool) -> int:
    """Run a command until it ends or standard input does; returns the exit code to exit with."""
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
    if ends_session:
        _end_session(child.pid)
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


def _end_session(session: int) -> None:
    """Ask what is left in a session to end, and kill it after the grace time."""
    deadline_s = time.monotonic() + SESSION_GRACE_S
    _signal_all(_find_session(session), signal.SIGTERM)
    while (left := _find_session(session)) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    _signal_all(left, signal.SIGKILL)


def _find_session(session: int) -> list[int]:
    import psutil

    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == session:
                found.append(pid)
        except (ProcessLookupError, PermissionError):
            continue  # it has ended since, or belongs to somebody else
    return found


def _signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def main(arguments: Sequence[str]) -> int:
    """The supervisor's command line: everything after `--` is the command."""
    ends_session = bool(arguments) and arguments[0] == SESSION_OPTION
    rest = arguments[1:] if ends_session else arguments
    if len(rest) < 2 or rest[0] != "--":
        sys.stderr.write(f"usage: python -m evenkeel.local.supervised [{SESSION_OPTION}] -- COMMAND [ARGUMENT]...\n")
        return USAGE_EXIT_CODE
    return run_supervisor(rest[1:], ends_session)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
