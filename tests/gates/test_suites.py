"""The suites on disk, and what importing the gates costs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from evenkeel.gates.suites import read_suite
from evenkeel.model.errors import InputError
from evenkeel.resources import find_resource

SUITES = sorted(file.stem for file in find_resource("expectations/suites").glob("*.json"))


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for part in value.values() for key in keys_of(part)}
    if isinstance(value, list):
        return {key for part in value for key in keys_of(part)}
    return set()


@pytest.mark.parametrize("name", SUITES)
def test_suite_is_plain_json_whose_expectations_exist(name: str) -> None:
    from great_expectations import ExpectationSuite
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    import evenkeel.gates.rules  # noqa: F401

    suite = read_suite(name)
    assert suite["name"] == name
    assert "id" not in keys_of(suite)
    known = list_registered_expectation_implementations()
    assert [entry["type"] for entry in suite["expectations"] if entry["type"] not in known] == []
    assert {entry["severity"] for entry in suite["expectations"]} <= {"critical", "warning", "info"}
    made = ExpectationSuite(**suite)
    assert [expectation.description for expectation in made.expectations if not expectation.description] == []


def test_every_rule_is_used_by_a_suite() -> None:
    from evenkeel.gates import rules
    from evenkeel.gates.rules.base import Rule

    used = {entry["type"] for name in SUITES for entry in read_suite(name)["expectations"]}
    written = {rule.expectation_type for rule in Rule.__subclasses__() if rule.__module__.startswith(rules.__name__)}
    assert written - used == set()


def test_unknown_suite_is_refused() -> None:
    with pytest.raises(InputError, match=r"suites/nothing\.json is missing: install Evenkeel again"):
        read_suite("nothing")


def test_importing_the_gates_imports_neither_great_expectations_nor_spark() -> None:
    code = "import evenkeel.gates, json, sys; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {"great_expectations", "pyspark", "pandas", "numpy", "pyarrow"} & set(json.loads(done.stdout)) == set()
