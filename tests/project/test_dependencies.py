"""Every declared dependency is used: imported by the code, or listed here with its reason."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
FOLDERS = ("plugins", "spark", "dags", "benchmarks", "tests")
# Distributions whose top-level module has another name.
MODULES = {
    "apache-airflow": "airflow",
    "apache-airflow-providers-apache-spark": "airflow.providers.apache.spark",
    "apache-airflow-providers-standard": "airflow.providers.standard",
    "great-expectations": "great_expectations",
    "pulsar-client": "pulsar",
    "python-dateutil": "dateutil",
    "recurring-ical-events": "recurring_ical_events",
}
NOT_IMPORTED = {
    "pandas": "PySpark and GX import it; declared to pin its version",
    "boto3": "for a lake on S3, which is not supported yet",
    "pure-sasl": "kazoo imports it",
    "pytest-timeout": "a plugin of pytest",
    "pytest-xdist": "a plugin of pytest",
    "mypy": "a command",
    "ruff": "a command",
    "import-linter": "a command",
    "types-psutil": "read by mypy",
    "uv": "a command",
}


def declared() -> set[str]:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = [re.match(r"[A-Za-z0-9_.-]+", requirement) for group in groups for requirement in group]
    return {name[0].lower() for name in names if name}


@cache
def imported() -> set[str]:
    """Return every module that is imported somewhere, with its parents."""
    found: set[str] = set()
    for folder in FOLDERS:
        for file in (PROJECT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                    found.add(node.module)
    return {".".join(name.split(".")[: depth + 1]) for name in found for depth in range(name.count(".") + 1)}


def test_every_dependency_is_imported_or_has_a_reason() -> None:
    modules = imported()
    unused = {name for name in declared() - NOT_IMPORTED.keys() if MODULES.get(name, name) not in modules}
    assert unused == set()


def test_no_reason_is_out_of_date() -> None:
    modules = imported()
    assert {name for name in NOT_IMPORTED if MODULES.get(name, name) in modules} == set()
