"""Evenkeel's rules decide as Pulsar's real classes did, case by case; and the runner of the cases can fail."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from support.pulsar_cases import ADAPTERS, load_cases, main, run_case

FILE = Path(__file__).parents[1] / "data" / "pulsar-cases.json"
RANDOM_FILE = FILE.with_name("pulsar-random-cases.json")
CASES = load_cases(FILE)
RANDOM_CASES = {case_id: (case, defaults) for case_id, case, defaults in load_cases(RANDOM_FILE)}
BY_ID = {case_id: (case, defaults) for case_id, case, defaults in CASES}
# One of each kind of expectation, with the part that must make the case fail when it says something else.
FALSIFIED = [
    ("transfer-baseline", ("decisions", 0, "dest"), "broker3:8080"),
    ("transfer-baseline", ("loadStd",), 0.5),
    ("transfer-hit-count-3", ("steps", 3, "decisions"), []),
    ("transfer-outdated-all", ("counter", "reason"), "NoBrokers"),
    ("transfer-swap-one-for-one", ("directions", 0, "count"), 2),
    ("transfer-load-over-100", ("stdAfter",), 1.0),
    ("transfer-overload-outlier-100", ("decisions", 0, "dest"), "any broker with load 0.99"),
    ("threshold-reached", ("unload",), {}),
    ("threshold-lower-boundary-on", ("brokers",), ["broker-10"]),
    ("overload-multi-bundles", ("unload", "broker-1"), ["bundle-9", "bundle-10"]),
    ("uniform-small-rate", ("count",), 3),
    ("avg-low-threshold", ("steps", 5, "dest_of", "broker1"), "broker3"),
    ("split-msg-rate", ("steps", 3, "splits", 0, "reason"), "Bandwidth"),
    ("split-bundle-count-error", ("steps", 0, "failures"), 1),
    ("split-modular-max-bundles", ("count",), 3),
    ("placement-least-long-term-rate", ("selected", 3), "3"),
    ("placement-ext-no-load-data", ("selected_in", 1), ["1"]),
    ("topk-policies-allowed", ("list",), []),
    ("algo-flow-first-hot", ("first_boundary",), 1),
    ("brokerload-ema", ("steps", 1, "weightedMaxEMA"), 1.8),
]


@pytest.mark.parametrize("case_id", BY_ID)
def test_rule_decides_as_pulsar_does(case_id: str) -> None:
    case, defaults = BY_ID[case_id]
    assert run_case(case, defaults) == []


@pytest.mark.parametrize("case_id", RANDOM_CASES)
def test_rule_decides_as_pulsar_does_on_random_input(case_id: str) -> None:
    case, defaults = RANDOM_CASES[case_id]
    assert run_case(case, defaults) == []


def test_the_cases_are_all_here() -> None:
    assert len(CASES) == len(BY_ID) == 89
    assert {case["algorithm"] for case, _ in BY_ID.values()} == set(ADAPTERS)


@pytest.mark.parametrize(("case_id", "path", "value"), FALSIFIED)
def test_wrong_expectation_is_noticed(case_id: str, path: tuple[Any, ...], value: Any) -> None:
    case, defaults = copy.deepcopy(BY_ID[case_id])
    place = case["expected"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert run_case(case, defaults) != []


def test_default_of_the_file_is_read() -> None:
    case, defaults = BY_ID["threshold-reached"]
    assert run_case(case, {**defaults, "loadBalancerBrokerThresholdShedderPercentage": 90}) != []


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ({"id": "a", "algorithm": "RandomShedder"}, "a: the algorithm 'RandomShedder' is not known"),
        ({"id": "b", "algorithm": "TopKBundles"}, "b: the case cannot be run (KeyError: 'input')"),
        ("text", "case 1: the case cannot be run (TypeError"),
        ({"id": "c", "algorithm": "OverloadShedder", "input": {}, "expected": {}}, "c: the case states nothing"),
        (
            {"id": "d", "algorithm": "OverloadShedder", "config": {"x": 1}, "input": {}, "expected": {"unload": {}}},
            "unknown setting 'x'",
        ),
    ],
)
def test_case_that_cannot_be_run_counts_as_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: Any, sentence: str
) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([case]))
    assert main([str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sentence in lines[0]
    assert lines[-1] == "0 passed, 1 failed"


def test_command_counts_what_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FILE)]) == 0
    assert capsys.readouterr().out == "89 passed, 0 failed\n"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cases": 3}'])
def test_file_without_cases_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    file = tmp_path / "cases.json"
    file.write_text(text)
    assert main([str(file)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 1 failed"
