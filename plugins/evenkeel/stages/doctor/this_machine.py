"""Probes of this machine: Python, Java, Spark, and Airflow if it is configured here."""

from __future__ import annotations

import configparser
import importlib.metadata
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from evenkeel import __version__
from evenkeel.adapters.machine import find_java
from evenkeel.stages.doctor.findings import Told, ok, problem, warning

TESTED_PYTHONS = ((3, 11), (3, 12))
OLDEST_JAVA = 17
COMMAND_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 5.0
LONGEST_REASON = 200
MASTER = re.compile(r"local(\[(\*|\d+)(,\d+)?\])?|spark://\S+:\d+(,\S+:\d+)*|yarn|k8s://\S+")
AIRFLOW_CONNECTION = "evenkeel_default"
AIRFLOW_POOL = "default_pool"
PLUGIN_FILE = "evenkeel_plugin.py"


def look_at_python() -> Iterable[Told]:
    told = f"Python {'.'.join(map(str, sys.version_info[:3]))}, Evenkeel {__version__}"
    if sys.version_info[:2] in TESTED_PYTHONS:
        yield ok("Python", told)
    else:
        yield warning("Python", f"{told}; tested are 3.11 and 3.12", "use one of these")


def look_at_java() -> Iterable[Told]:
    java = find_java()
    done = subprocess.run(
        [str(java), "-version"], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    found = re.search(r'version "(\d+)', done.stderr)
    if done.returncode != 0 or found is None:
        yield problem("Java", f"{java} does not start", "install Java 17 or newer, or set JAVA_HOME")
    elif int(found[1]) < OLDEST_JAVA:
        told = f"{java} is Java {found[1]}, Spark needs {OLDEST_JAVA}"
        yield problem("Java", told, "install Java 17 or newer, or set JAVA_HOME")
    else:
        yield ok("Java", f"Java {found[1]} at {java}")


def look_at_spark(master: str) -> Iterable[Told]:
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        yield problem("PySpark", "pyspark is not installed", "install Evenkeel with its dependencies")
        return
    yield ok("PySpark", f"PySpark {version}")
    if MASTER.fullmatch(master) is None:
        told = f"{master!r} is not a Spark master"
        yield problem("Spark master", told, "use local[*], spark://host:port, yarn or k8s://address")
        return
    if master.startswith("spark://") and not any(map(_accepts, master.removeprefix("spark://").split(","))):
        yield problem("Spark master", f"{master} does not accept connections", "check the address and the master")
        return
    yield ok("Spark master", master)
    if not master.startswith("local"):
        yield _look_for_submit()


def _look_for_submit() -> Told:
    beside = Path(sys.executable).with_name("spark-submit")
    found = str(beside) if beside.is_file() else shutil.which("spark-submit")
    if found is None:
        return problem("spark-submit", "spark-submit is not on the path", "add the bin folder of Spark to PATH")
    return ok("spark-submit", found)


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


def look_at_airflow(environment: Mapping[str, str]) -> Iterable[Told]:
    """Look at the connection, the pool and the plugin, where this machine has an Airflow configuration."""
    home = Path(environment.get("AIRFLOW_HOME") or Path.home() / "airflow")
    is_configured = (home / "airflow.cfg").is_file() or any(name.startswith("AIRFLOW__") for name in environment)
    if not is_configured:
        yield ok("Airflow", "not configured on this machine, so not checked")
        return
    beside = Path(sys.executable).with_name("airflow")
    command = str(beside) if beside.is_file() else shutil.which("airflow")
    if command is None:
        yield problem("Airflow", f"configured in {home}, but not installed", "install apache-airflow, or use its venv")
        return
    yield _look_at_plugin(home, environment)
    ask = partial(_ask_airflow, command, environment)
    create = f"create {AIRFLOW_CONNECTION}; infra/airflow/connections.example.json shows how"
    yield ask("Airflow connection", ("connections", "get", AIRFLOW_CONNECTION), create)
    yield ask("Airflow pool", ("pools", "get", AIRFLOW_POOL), f"migrate Airflow's database, or create {AIRFLOW_POOL}")


def _look_at_plugin(home: Path, environment: Mapping[str, str]) -> Told:
    folder = environment.get("AIRFLOW__CORE__PLUGINS_FOLDER") or _read_plugins_folder(home / "airflow.cfg")
    plugins = Path(os.path.expandvars(folder)) if folder else home / "plugins"
    if (plugins / PLUGIN_FILE).is_file():
        return ok("Airflow plugin", str(plugins / PLUGIN_FILE))
    told = f"{plugins} has no {PLUGIN_FILE}"
    return problem("Airflow plugin", told, "set AIRFLOW__CORE__PLUGINS_FOLDER to Evenkeel's plugins")


def _read_plugins_folder(file: Path) -> str | None:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(file)
        return parser.get("core", "plugins_folder", fallback=None)
    except (configparser.Error, OSError, UnicodeDecodeError):
        return None


def _ask_airflow(command: str, environment: Mapping[str, str], check: str, words: tuple[str, ...], remedy: str) -> Told:
    try:
        done = subprocess.run(
            [command, *words, "--output", "json"],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return problem(check, f"airflow {' '.join(words)} took too long", "check Airflow's database")
    if done.returncode == 0 and _is_json(done.stdout):
        return ok(check, f"{words[-1]} exists")
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    # After a traceback the last line is often a link; the one before that names the error says more.
    why = next((line for line in reversed(lines) if "Error" in line), lines[-1] if lines else "no output")
    why = why[:LONGEST_REASON]
    return problem(check, f"Airflow gives no {words[-1]} ({why})", remedy)


def _is_json(text: str) -> bool:
    # Airflow may print warnings before the document.
    place = text.find("[")
    try:
        return place >= 0 and bool(json.loads(text[place:]))
    except ValueError:
        return False
