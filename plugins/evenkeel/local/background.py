"""A local cluster in the background: one process in a folder of its own that runs until it is told to stop.

    start ──▶ python -m evenkeel.local.background ──▶ ZooKeeper, brokers ──▶ state.json, evenkeel.toml

The process holds a lock on a file in the folder for as long as it lives. The lock tells whether the cluster runs; a
process id could belong to somebody else by now.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evenkeel.configuration import FILE_NAME
from evenkeel.local.stack import FleetSize, LocalStack, RealStack
from evenkeel.model.errors import RefusedError, UnavailableError

START_DEADLINE_S = 150.0
# The first time, Maven downloads 250 MB of jars.
REAL_START_DEADLINE_S = 1_800.0
STOP_DEADLINE_S = 30.0
POLL_S = 0.1
LAKE_FOLDER = "lake"


class BackgroundCluster:
    """The local cluster of one folder, as other processes see it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    @property
    def config_file(self) -> Path:
        """The `evenkeel.toml` with which commands find this cluster."""
        return (self.home / FILE_NAME).resolve()

    def start(self, size: FleetSize) -> dict[str, Any]:
        """Start the cluster, wait until it serves, and return its state; an earlier cluster's files are removed."""
        if self.is_running():
            raise RefusedError(
                f"a local cluster is already running in {self.home}", "use it, or stop it with `evenkeel local down`"
            )
        self._clear()
        arguments = json.dumps({"home": str(self.home.resolve()), "size": asdict(size)})
        log_file = self.home / "stack.log"
        with open(log_file, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "evenkeel.local.background", arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            _wait(
                lambda: self._state_file.exists() or process.poll() is not None,
                REAL_START_DEADLINE_S if size.is_real else START_DEADLINE_S,
                f"the cluster in {self.home} did not start",
            )
        except UnavailableError:
            process.terminate()
            raise
        if not self._state_file.exists():
            raise UnavailableError(f"the cluster in {self.home} failed to start", f"read {log_file}")
        return self.read_state()

    def stop(self) -> None:
        """Stop the cluster and wait until all its processes have ended."""
        if not self.is_running():
            raise RefusedError(f"no local cluster is running in {self.home}", "start one with `evenkeel local up`")
        if not self._state_file.exists():
            raise RefusedError(f"the local cluster in {self.home} is still starting", "try again in a moment")
        os.kill(self.read_state()["pid"], signal.SIGTERM)
        _wait(lambda: not self.is_running(), STOP_DEADLINE_S, f"the cluster in {self.home} did not stop")

    def is_running(self) -> bool:
        """Whether a live process holds the lock."""
        if not self._lock_file.exists():
            return False
        try:
            with self._locked():
                return False
        except BlockingIOError:
            return True

    def is_serving(self) -> bool:
        """Whether the cluster runs and has finished starting."""
        return self.is_running() and self._state_file.exists()

    def read_state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._state_file.read_text())
        return state

    def serve(self, size: FleetSize) -> None:
        """Run the cluster in this process until SIGTERM or SIGINT."""
        is_stopping = False

        def stop(*_: object) -> None:
            nonlocal is_stopping
            is_stopping = True

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        with self._locked(), RealStack(self.home, size) if size.is_real else LocalStack(self.home, size) as stack:
            state = asdict(size) | {
                "pid": os.getpid(),
                "zookeeper": stack.connection.zookeeper,
                "cluster": stack.connection.cluster,
                "config": str(self.config_file),
                **stack.addresses,
            }
            self.config_file.write_text(_write_config(state["cluster"], state["zookeeper"]))
            temporary = self._state_file.with_suffix(".new")
            temporary.write_text(json.dumps(state))
            temporary.rename(self._state_file)
            while not is_stopping:
                time.sleep(POLL_S)

    @property
    def _state_file(self) -> Path:
        return self.home / "state.json"

    @property
    def _lock_file(self) -> Path:
        return self.home / "lock"

    def _clear(self) -> None:
        """Empty the folder of an earlier cluster; any other folder is left alone."""
        if self.home.exists() and any(self.home.iterdir()) and not self._lock_file.exists():
            raise RefusedError(f"{self.home} is not empty and not of a local cluster", "give another --home")
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._lock_file, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield


def _write_config(cluster: str, zookeeper: str) -> str:
    # The lake is beside the file: it goes with this cluster, so that `latest` never means a plan for another one.
    return f"""\
# The cluster of `evenkeel local up`. To use it: eval "$(evenkeel local env)"

[clusters.{cluster}]
zookeeper = "{zookeeper}"
lake = "{LAKE_FOLDER}"

[clusters.{cluster}.approval]
unsigned = true  # on this machine nobody has to sign; docs/concepts/security.md says who should, and how
"""


def _wait(is_done: Callable[[], bool], deadline_s: float, complaint: str) -> None:
    end_s = time.monotonic() + deadline_s
    while not is_done():
        if time.monotonic() > end_s:
            raise UnavailableError(f"{complaint} within {deadline_s:.0f} s", "read its log files")
        time.sleep(POLL_S)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    BackgroundCluster(Path(given["home"])).serve(FleetSize(**given["size"]))
