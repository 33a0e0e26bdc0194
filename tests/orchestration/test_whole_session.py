"""Tasks that left their process group still end with the process that started them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from evenkeel.fleet.supervised import SupervisedProcess

DEADLINE_S = 20.0
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
    except ProcessLookupError:
        return False
    return "\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path("/proc").exists() else True


def start(tmp_path: Path) -> SupervisedProcess:
    command = [sys.executable, "-m", "evenkeel.orchestration.whole_session", "--"]
    script = [sys.executable, "-c", PARENT, str(tmp_path / "pid")]
    return SupervisedProcess([*command, *script], tmp_path / "log")


def test_child_with_its_own_group_ends_with_the_command(tmp_path: Path) -> None:
    with start(tmp_path):
        child = wait_for_pid(tmp_path / "pid")
        assert is_running(child)
    assert not is_running(child)


def run_directly(*arguments: str, own_session: bool = True) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evenkeel.orchestration.whole_session", *arguments]
    return subprocess.run(command, timeout=DEADLINE_S, capture_output=True, text=True, start_new_session=own_session)


def test_exit_code_of_the_command_is_passed_on() -> None:
    assert run_directly("--", sys.executable, "-c", "exit(3)").returncode == 3


def test_wrong_usage_is_told() -> None:
    done = run_directly(sys.executable)
    assert done.returncode == 2
    assert "usage:" in done.stderr


def test_session_of_somebody_else_is_left_alone() -> None:
    done = run_directly("--", sys.executable, "-c", "exit(3)", own_session=False)
    assert done.returncode == 2
    assert "must lead its own session" in done.stderr
