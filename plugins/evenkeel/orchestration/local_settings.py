"""The settings of an Airflow that lives in one folder, on this machine alone, and is up in seconds."""

from __future__ import annotations

import configparser
import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOOPBACK = "127.0.0.1"
SECRET_BYTES = 64
PARALLEL_TASKS = 2
OWNER_ONLY = 0o600
SPARK_DEFAULTS = {
    # Nobody looks at the UI of a job of seconds, and this machine's own name need not resolve.
    "spark.ui.enabled": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": LOOPBACK,
    # In a job of seconds a quick start matters more than peak speed.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


def write_settings(home: Path, dags: Path, plugins: Path, port: int, user: str) -> str:
    """Write what Airflow and Spark read; secrets only where their owner alone may read. Answers the password."""
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
    """Where the password of the only user is."""
    return home / "passwords.json"


def _spark_folder(home: Path) -> Path:
    return home / "spark"


def build_environment(
    home: Path, connections: Mapping[str, Mapping[str, Any]], extra: Mapping[str, str]
) -> dict[str, str]:
    """The environment of Airflow's processes: this one's, without what configures another Airflow."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    own_commands = str(Path(sys.executable).parent)
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW_CONFIG": str(home / "airflow.cfg"),
        # spark-submit is found by its name, and its workers must run this very Python.
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
            # The default asks the network for this machine's full name, which may take its time.
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
