"""Processes that left their group, but not their session, end with the command that started them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evenkeel.local.supervised import SupervisedProcess
from support.waiting import eventually, scaled

DEADLINE_S = scaled(20.0)
# A child that, like an Airflow task, has a process group of its own and does not care for SIGTERM.
PARENT = """
import os, signal, sys, time
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(sys.argv[1], "w") as file:
        file.write(f"{os.getpid()}\\n")
time.sleep(60)
"""


def wait_for_pid(file: Path) -> int:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if file.exists() and file.read_text().endswith("\n"):
            return int(file.read_text())
        time.sleep(0.05)
    raise AssertionError("the child did not start")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path("/proc").exists() else True
    except (ProcessLookupError, FileNotFoundError):
        return False


def start(tmp_path: Path) -> SupervisedProcess:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "pid")]
    return SupervisedProcess(command, tmp_path / "log", ends_session=True)


def test_child_with_its_own_group_ends_with_the_command(tmp_path: Path) -> None:
    with start(tmp_path):
        child = wait_for_pid(tmp_path / "pid")
        assert is_running(child)
    # It is no child of the supervisor's, which cannot wait for it: the kernel ends it a moment after SIGKILL.
    assert eventually(lambda: not is_running(child))


def run_directly(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evenkeel.local.supervised", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as supervisor:
        # Its standard input stays open: that is how the supervisor knows that this process lives.
        code = supervisor.wait(DEADLINE_S)
        assert supervisor.stdout is not None
        assert supervisor.stderr is not None
        return subprocess.CompletedProcess(command, code, supervisor.stdout.read(), supervisor.stderr.read())


def test_exit_code_of_the_command_is_returned() -> None:
    assert run_directly("--whole-session", "--", sys.executable, "-c", "exit(3)").returncode == 3


@pytest.mark.parametrize("arguments", [(sys.executable,), ("--whole-session", sys.executable), ("--",)])
def test_wrong_usage_is_reported(arguments: tuple[str, ...]) -> None:
    done = run_directly(*arguments)
    assert done.returncode == 2
    assert "usage:" in done.stderr


def test_session_of_the_caller_is_left_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with start(tmp_path):
            wait_for_pid(tmp_path / "pid")
        assert is_running(bystander.pid)
    finally:
        bystander.kill()
        bystander.wait()
