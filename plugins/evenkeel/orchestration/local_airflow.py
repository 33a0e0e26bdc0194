"""A real Airflow in a folder of its own, for the demo and the tests.

    airflow db migrate ──▶ api-server · scheduler · dag-processor ──▶ healthy, both Dags parsed

SQLite, at most two tasks at a time, no triggerer (approvals need none), one user with a random password, bound to the
loopback address. It is not meant to last: what it knows goes with its folder. This module starts processes and speaks
HTTP; it does not import Airflow, which alone would cost seconds.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evenkeel.fleet.embedded_zookeeper import find_free_port
from evenkeel.fleet.supervised import SupervisedProcess
from evenkeel.model.errors import UnavailableError
from evenkeel.orchestration.airflow_client import AirflowClient
from evenkeel.orchestration.local_settings import LOOPBACK, build_environment, password_file, write_settings

DAG_IDS = ("collect_load", "rebalance_window")
PARTS = ("metadatabase", "scheduler", "dag_processor")
MIGRATE_DEADLINE_S = 180.0
START_DEADLINE_S = 180.0
POLL_S = 0.3
LOG_TAIL_LINES = 20
DEFAULT_USER = "operator"
LOCAL_SPARK: Mapping[str, str] = {"conn_type": "spark", "host": "local[*]"}


class LocalAirflow(AirflowClient):
    """An Airflow that runs from `with` to the end of the block, and the session of its only user.

    All Dags begin paused. The processes end with the block, and also when this process is killed.
    """

    def __init__(
        self,
        home: Path,
        project: Path,
        connections: Mapping[str, Mapping[str, Any]],
        *,
        dags: Path | None = None,
        dag_ids: Sequence[str] = DAG_IDS,
        env: Mapping[str, str] | None = None,
        user: str = DEFAULT_USER,
    ) -> None:
        self.home = home.resolve()
        self._dags = (dags or project / "dags").resolve()
        self._plugins = (project / "plugins").resolve()
        self._dag_ids = tuple(dag_ids)
        self._env = build_environment(self.home, {"spark_default": LOCAL_SPARK, **connections}, env or {})
        self._port = find_free_port()
        self._stack = ExitStack()
        self._processes: list[SupervisedProcess] = []
        super().__init__(f"http://{LOOPBACK}:{self._port}", user)

    @property
    def password_file(self) -> Path:
        """Where the user's password is, for whoever wants to open the page; it is in no log."""
        return password_file(self.home)

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        password = write_settings(self.home, self._dags, self._plugins, self._port, self.user)
        self._migrate()
        with self._stack:
            self._stack.callback(self.close)
            for part in (["api-server"], ["scheduler", "--skip-serve-logs"], ["dag-processor"]):
                self._start(part)
            end = time.monotonic() + START_DEADLINE_S
            self._wait_until(self._is_healthy, end, "Airflow is not healthy")
            self.log_in(password)
            self._wait_until(self._is_parsed, end, f"the Dags {', '.join(self._dag_ids)} are not parsed")
            # Everything is up: keep it until __exit__. On any error above the stack has ended it already.
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _migrate(self) -> None:
        log = self.home / "migrate.log"
        try:
            with log.open("wb") as output:
                subprocess.run(
                    [sys.executable, "-m", "airflow", "db", "migrate"],
                    env=self._env,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=MIGRATE_DEADLINE_S,
                    check=True,
                )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"Airflow's database cannot be made ({error})", f"read {log}") from error

    def _start(self, arguments: list[str]) -> None:
        # Airflow's tasks have process groups of their own; whole_session ends them as well.
        own_session = [sys.executable, "-m", "evenkeel.orchestration.whole_session", "--"]
        command = [*own_session, sys.executable, "-m", "airflow", *arguments]
        process = SupervisedProcess(command, self.home / f"{arguments[0]}.log", self._env, self.home)
        self._stack.enter_context(process)
        self._processes.append(process)

    def _is_healthy(self) -> bool:
        try:
            health = self.health()
        except UnavailableError:
            return False  # the API server is not listening yet
        return all(health.get(part) == "healthy" for part in PARTS)

    def _is_parsed(self) -> bool:
        for file, trace in self.import_errors().items():
            raise UnavailableError(f"Airflow cannot parse {file} ({trace.strip()})", "mend the Dag file")
        return self.dag_ids().issuperset(self._dag_ids)

    def _wait_until(self, condition: Callable[[], bool], end: float, complaint: str) -> None:
        while not condition():
            for process in self._processes:
                if process.poll() is not None:
                    raise UnavailableError(f"{process.log_path.stem} ended ({_tail(process.log_path)})", "see its log")
            if time.monotonic() > end:
                raise UnavailableError(f"{complaint} after {START_DEADLINE_S:g} s", f"read the logs in {self.home}")
            time.sleep(POLL_S)


def _tail(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])
