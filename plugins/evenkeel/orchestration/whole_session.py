"""Runs a command and, when it is to end, ends every process that it left in its session.

Airflow puts each task into a process group of its own, so a signal to the scheduler's group does not reach the tasks.
They do stay in the session. As a command of `SupervisedProcess`, which gives each command a session, this program
passes the request to end on and then clears the session, whichever group a process is in.

    python -m evenkeel.orchestration.whole_session -- airflow scheduler

What it cannot do: clear a session after being killed itself by SIGKILL, or follow a process into another session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

import psutil

# Below the ten seconds that SupervisedProcess grants, so that the session is cleared before the kill comes.
COMMAND_GRACE_S = 4.0
TASK_GRACE_S = 2.0
POLL_S = 0.1
USAGE_EXIT_CODE = 2
SIGNAL_EXIT_BASE = 128


class _EndRequestedError(Exception):
    """SIGTERM came."""


def run_in_session(command: Sequence[str]) -> int:
    """Run a command until it ends or SIGTERM comes, then clear the session; answers the exit code."""
    signal.signal(signal.SIGTERM, _request_end)
    child: subprocess.Popen[bytes] | None = None
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        child.wait()
    except _EndRequestedError:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    finally:
        clear_session(child)
    if child is None or child.returncode is None:
        return SIGNAL_EXIT_BASE + signal.SIGTERM
    return SIGNAL_EXIT_BASE - child.returncode if child.returncode < 0 else child.returncode


def clear_session(child: subprocess.Popen[bytes] | None) -> None:
    """End the command first, then whatever is left of the session: ask, wait, kill."""
    if child is not None and child.poll() is None:
        child.terminate()
        try:
            child.wait(COMMAND_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    deadline = time.monotonic() + TASK_GRACE_S
    _signal_all(others_in_session(), signal.SIGTERM)
    while (left := others_in_session()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    _signal_all(left, signal.SIGKILL)


def others_in_session() -> list[int]:
    """Process ids of this session, this process apart."""
    own_session = os.getsid(0)
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == own_session and pid != os.getpid():
                found.append(pid)
        except (ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or somebody else's
    return found


def _signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _request_end(_signal: int, _frame: FrameType | None) -> None:
    raise _EndRequestedError


def main(arguments: Sequence[str]) -> int:
    """The command line: everything after `--` is the command."""
    if len(arguments) < 2 or arguments[0] != "--":
        sys.stderr.write("usage: python -m evenkeel.orchestration.whole_session -- COMMAND [ARGUMENT]...\n")
        return USAGE_EXIT_CODE
    if os.getsid(0) != os.getpid():
        # Clearing somebody else's session would end the terminal that it was typed into.
        sys.stderr.write("error: this program must lead its own session: start it by SupervisedProcess or setsid\n")
        return USAGE_EXIT_CODE
    return run_in_session(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
