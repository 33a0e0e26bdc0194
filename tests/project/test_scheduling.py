"""How tests are marked, scaled and handed to test processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support import waiting
from support.scheduling import LIMITS, QUICK, SchedulingByNeed, heaviest_need

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(eq=False)
class FakeNode:
    """A test process that runs nothing and remembers which tests it was given."""

    id: str
    collection: Sequence[str]
    given: list[str] = field(default_factory=list)
    shutting_down: bool = False

    @property
    def gateway(self) -> Any:
        return self

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.given += [self.collection[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True


@dataclass
class FakeConfig:
    """The few options that xdist's schedulers read."""

    processes: int
    option: Any = field(default_factory=SimpleNamespace)

    def getvalue(self, name: str) -> Any:
        return [f"{self.processes}*popen"] if name == "tx" else None


def silent(*words: object) -> None:
    """A log that nobody reads."""


silent.loadscopesched = silent  # type: ignore[attr-defined]


def run_all(units: dict[str, str], processes: int, folder: Path) -> list[FakeNode]:
    """Hand out all tests; in turn each process completes the first test it has not completed."""
    file = folder / "units.json"
    file.write_text(json.dumps(units))
    scheduling = SchedulingByNeed(FakeConfig(processes), silent, file)  # type: ignore[arg-type]
    nodes = [FakeNode(f"gw{number}", list(units)) for number in range(processes)]
    for node in nodes:
        scheduling.add_node(node)  # type: ignore[arg-type]
        scheduling.add_node_collection(node, list(units))  # type: ignore[arg-type]
    scheduling.schedule()
    done: dict[str, int] = {node.id: 0 for node in nodes}
    while any(done[node.id] < len(node.given) for node in nodes):
        for node in nodes:
            if done[node.id] < len(node.given):
                test = node.given[done[node.id]]
                done[node.id] += 1
                scheduling.mark_test_complete(node, list(units).index(test))  # type: ignore[arg-type]
    assert all(node.shutting_down for node in nodes), "a process that is not told to end waits for ever"
    return nodes


def test_each_test_runs_once_and_units_stay_together(tmp_path: Path) -> None:
    units = {f"t{number}": f"quick:m{number // 3}" for number in range(30)}
    nodes = run_all(units, 4, tmp_path)
    assert sorted(test for node in nodes for test in node.given) == sorted(units)
    for unit in set(units.values()):
        assert sum(any(units[test] == unit for test in node.given) for node in nodes) == 1, unit


@pytest.mark.parametrize("need", LIMITS)
def test_each_kind_of_server_is_started_by_a_limited_number_of_processes(tmp_path: Path, need: str) -> None:
    units = {f"s{number}": f"{need}:u{number}" for number in range(12)} | {f"q{n}": f"quick:m{n}" for n in range(12)}
    nodes = run_all(units, 5, tmp_path)
    assert sorted(test for node in nodes for test in node.given) == sorted(units)
    holders = [node for node in nodes if any(units[test].startswith(need) for test in node.given)]
    assert 0 < len(holders) <= LIMITS[need]


def test_process_left_with_servers_of_others_only_is_told_to_end(tmp_path: Path) -> None:
    units = {f"s{number}": f"pulsar:u{number}" for number in range(4)}
    nodes = run_all(units, 3, tmp_path)
    assert [len(node.given) for node in nodes] == [4, 0, 0]


def test_deadlines_are_scaled_by_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(waiting.SLOWNESS_VARIABLE, "2.5")
    waiting.slowness.cache_clear()
    try:
        assert waiting.scaled(4.0) == 10.0
    finally:
        waiting.slowness.cache_clear()


def test_more_test_processes_than_cores_stretch_the_deadlines() -> None:
    assert waiting.measure_slowness(1) >= 1.0
    assert waiting.measure_slowness(10_000) == waiting.MOST_SLOWNESS


def test_test_without_a_server_is_quick_and_finds_a_java_that_refuses(request: pytest.FixtureRequest) -> None:
    assert heaviest_need(request.node) == QUICK
    program = "from evenkeel.adapters.machine import find_java; import os; os.execv(find_java(), ['java'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, "a test without a marker started Java" in done.stderr) == (1, True)
