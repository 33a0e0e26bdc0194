"""A supervised process stops when it should, with its own exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.local.supervised import SupervisedProcess
from support.waiting import scaled, wait_for

WAIT_S = scaled(20.0)
SLEEPER = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(300)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
PARENT_OF = """
import sys, time
from pathlib import Path
from evenkeel.local.supervised import SupervisedProcess
SupervisedProcess([sys.executable, "-c", sys.argv[1], sys.argv[2]], Path(sys.argv[3])).start()
time.sleep(300)
"""


def read_pid(path: Path) -> int:
    wait_for(lambda: path.exists() and path.read_text() != "", "the child started")
    return int(path.read_text())


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("code", [0, 3])
def test_exit_code_of_the_command_is_forwarded(tmp_path: Path, code: int) -> None:
    with SupervisedProcess([sys.executable, "-c", f"raise SystemExit({code})"], tmp_path / "log") as process:
        assert process.wait(WAIT_S) == code


def test_output_goes_to_the_log(tmp_path: Path) -> None:
    with SupervisedProcess([sys.executable, "-c", "import sys; sys.stderr.write('said')"], tmp_path / "log") as process:
        process.wait(WAIT_S)
    assert (tmp_path / "log").read_text() == "said"


def test_stop_terminates_the_command(tmp_path: Path) -> None:
    process = SupervisedProcess([sys.executable, "-c", SLEEPER, str(tmp_path / "pid")], tmp_path / "log")
    process.start()
    pid = read_pid(tmp_path / "pid")
    assert process.poll() is None
    assert process.stop(grace_s=10) == 128 + signal.SIGTERM
    assert not is_running(pid)


def test_stop_kills_a_command_that_ignores_the_request(tmp_path: Path) -> None:
    process = SupervisedProcess([sys.executable, "-c", STUBBORN, str(tmp_path / "pid")], tmp_path / "log")
    process.start()
    pid = read_pid(tmp_path / "pid")
    assert process.stop(grace_s=0.2) == 128 + signal.SIGKILL
    assert not is_running(pid)


def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", PARENT_OF, SLEEPER, str(tmp_path / "pid"), str(tmp_path / "log")]
    with subprocess.Popen(arguments) as parent:
        pid = read_pid(tmp_path / "pid")
        os.kill(parent.pid, signal.SIGKILL)
    wait_for(lambda: not is_running(pid), "the child ended with its parent")


def test_unknown_command_is_reported_in_the_log(tmp_path: Path) -> None:
    with SupervisedProcess(["no-such-command-anywhere"], tmp_path / "log") as process:
        assert process.wait(WAIT_S) == 127
    assert "cannot start no-such-command-anywhere" in (tmp_path / "log").read_text()
