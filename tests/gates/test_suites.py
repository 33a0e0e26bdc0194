"""The suites on disk, and what importing the gates costs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from evenkeel.gates.rules import load_rules
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

    from evenkeel.gates.spark_suites import register_expectations

    register_expectations()
    suite = read_suite(name)
    assert suite["name"] == name
    assert "id" not in keys_of(suite)
    known = list_registered_expectation_implementations()
    assert [entry["type"] for entry in suite["expectations"] if entry["type"] not in known] == []
    assert {entry["severity"] for entry in suite["expectations"]} <= {"critical", "warning", "info"}
    made = ExpectationSuite(**suite)
    assert [expectation.description for expectation in made.expectations if not expectation.description] == []


def test_every_rule_is_used_by_a_suite_and_gets_its_parameters() -> None:
    entries = {entry["type"]: entry for name in SUITES for entry in read_suite(name)["expectations"]}
    rules = load_rules()
    assert set(entries) == set(rules)
    assert {name: set(entry["kwargs"]) for name, entry in entries.items()} == {
        name: set(rule.parameters) for name, rule in rules.items()
    }


def test_unknown_suite_is_refused() -> None:
    with pytest.raises(InputError, match=r"suites/nothing\.json is missing: install Evenkeel again"):
        read_suite("nothing")


def test_judging_small_data_imports_neither_great_expectations_nor_spark() -> None:
    modules = "evenkeel.gates.snapshot_gate, evenkeel.gates.plan_gate, evenkeel.stages.plan, evenkeel.stages.manual"
    listed = "json.dumps(sorted({name.split('.')[0] for name in sys.modules}))"
    code = f"import {modules}, json, sys; print({listed})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {"great_expectations", "pyspark", "pandas"} & set(json.loads(done.stdout)) == set()
