"""A real Airflow in a folder of its own, for the demo and the tests.

    airflow db migrate ──▶ api-server · scheduler · dag-processor ──▶ healthy, both Dags parsed

SQLite, at most two tasks at a time, no triggerer (approvals need none), one user with a random password, bound to the
loopback address. It is made to be thrown away with its folder. This module starts processes and speaks HTTP; it does
not import Airflow, which would take seconds.
"""

from __future__ import annotations

import configparser
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evenkeel.local.airflow_client import AirflowClient
from evenkeel.local.embedded_zookeeper import LOOPBACK, find_free_port
from evenkeel.local.supervised import SupervisedProcess
from evenkeel.model.errors import UnavailableError

DAG_IDS = ("collect_load", "rebalance_window")
PARTS = ("metadatabase", "scheduler", "dag_processor")
MIGRATE_DEADLINE_S = 180.0
START_DEADLINE_S = 180.0
POLL_S = 0.3
LOG_TAIL_LINES = 20
DEFAULT_USER = "operator"
LOCAL_SPARK: Mapping[str, str] = {"conn_type": "spark", "host": "local[*]"}
SECRET_BYTES = 64
PARALLEL_TASKS = 2
OWNER_ONLY = 0o600
OTHERS_CONFIGURATION = ("AIRFLOW_", "EVENKEEL_CONFIG")
SPARK_DEFAULTS = {
    # Nobody looks at the UI of a job that takes seconds, and this machine's own name may not resolve.
    "spark.ui.enabled": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": LOOPBACK,
    # For a job that takes seconds, a quick start matters more than peak speed.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


class LocalAirflow(AirflowClient):
    """An Airflow that runs for the length of a `with` block, and the session of its only user.

    All Dags start paused. The processes end with the block, and also when this process is killed.
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
        """The file with the user's password, for logging in to the web page; no log contains it."""
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
            # Everything is up: keep it until __exit__. After an error above, the stack has ended it already.
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
            raise UnavailableError(f"cannot create Airflow's database ({error})", f"read {log}") from error

    def _start(self, arguments: list[str]) -> None:
        command = [sys.executable, "-m", "airflow", *arguments]
        log = self.home / f"{arguments[0]}.log"
        # Airflow's tasks leave the process group of the scheduler, but not its session.
        process = SupervisedProcess(command, log, self._env, self.home, ends_session=True)
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
            raise UnavailableError(f"Airflow cannot parse {file} ({trace.strip()})", "fix the Dag file")
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


def write_settings(home: Path, dags: Path, plugins: Path, port: int, user: str) -> str:
    """Write the settings of Airflow and Spark, readable only by their owner, and return the user's password."""
    password = secrets.token_urlsafe(SECRET_BYTES)
    _write_private(password_file(home), json.dumps({user: password}))
    config = configparser.ConfigParser(interpolation=None)
    config.read_dict(_sections(home, dags, plugins, port, user))
    with _open_private(home / "airflow.cfg") as file:
        config.write(file)
    spark = _spark_folder(home)
    spark.mkdir(exist_ok=True)
    (spark / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in SPARK_DEFAULTS.items()))
    return password


def password_file(home: Path) -> Path:
    """The file with the password of the only user."""
    return home / "passwords.json"


def _spark_folder(home: Path) -> Path:
    return home / "spark"


def build_environment(
    home: Path, connections: Mapping[str, Mapping[str, Any]], extra: Mapping[str, str]
) -> dict[str, str]:
    """The environment of Airflow's processes: that of this one, without what configures another Airflow or cluster."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS_CONFIGURATION)}
    own_commands = str(Path(sys.executable).parent)
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONFIG": str(home / "airflow.cfg"),
        # Airflow looks for spark-submit on the path, and Spark's workers must run the same Python as this process.
        "PATH": os.pathsep.join([own_commands, inherited.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(_spark_folder(home)),
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(fields) for name, fields in connections.items()},
        **extra,
    }


def _sections(home: Path, dags: Path, plugins: Path, port: int, user: str) -> dict[str, dict[str, Any]]:
    url = f"http://{LOOPBACK}:{port}"
    return {
        "core": {
            "dags_folder": dags,
            "plugins_folder": plugins,
            "load_examples": False,
            "executor": "LocalExecutor",
            "parallelism": PARALLEL_TASKS,
            "dags_are_paused_at_creation": True,
            "execution_api_server_url": f"{url}/execution/",
            # The default asks the network for this machine's full name, which may take long.
            "hostname_callable": "socket.gethostname",
            "simple_auth_manager_users": f"{user}:admin",
            "simple_auth_manager_passwords_file": password_file(home),
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{home / 'airflow.db'}", "load_default_connections": False},
        "api": {
            "base_url": url,
            "host": LOOPBACK,
            "port": port,
            "workers": 1,
            "secret_key": secrets.token_urlsafe(SECRET_BYTES),
        },
        "api_auth": {"jwt_secret": secrets.token_urlsafe(SECRET_BYTES)},
        "logging": {"base_log_folder": home / "logs", "namespace_levels": "great_expectations=WARNING py4j=WARNING"},
        "scheduler": {"scheduler_idle_sleep_time": 0.5},
        "dag_processor": {"parsing_processes": 1, "min_file_process_interval": 300},
        "usage_data_collection": {"enabled": False},
    }


def _write_private(file: Path, text: str) -> None:
    with _open_private(file) as stream:
        stream.write(text)


def _open_private(file: Path) -> Any:
    file.unlink(missing_ok=True)
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "w")
