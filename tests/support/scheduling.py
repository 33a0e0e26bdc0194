"""What each test needs, and which test process runs it.

Markers follow from the fixtures that a test uses, or from the module's `pytestmark`; a test with none of them is
`quick` and gets no Java. With pytest-xdist, tests that share a server in module scope form one unit, units that run
longest start first, and each kind of server is started by a limited number of processes:

    unit "spark:tests/spark/test_jobs.py"  ──▶  one of the 2 processes that hold a Spark session
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

QUICK = "quick"
DEFAULT_TIMEOUT_S = 300.0
QUICK_LOT = 20
GROUP_SEPARATOR = ":"


@dataclass(frozen=True, slots=True)
class Need:
    """A kind of server that tests start; `processes` limits how many test processes do."""

    marker: str
    fixtures: frozenset[str]
    processes: int


# Heaviest first: a test with several needs is scheduled by the first of them.
NEEDS = (
    Need("pulsar", frozenset(), processes=1),
    Need("airflow", frozenset({"airflow"}), processes=2),
    Need("faults", frozenset(), processes=1),
    Need("spark", frozenset({"spark_session"}), processes=2),
    Need("zookeeper", frozenset({"zookeeper", "tls_hosts", "sasl_hosts"}), processes=4),
)
LIMITS = {need.marker: need.processes for need in NEEDS}
RANKS = {need.marker: rank for rank, need in enumerate(NEEDS)}


def mark_needs(items: Iterable[pytest.Item]) -> None:
    """Give every test the markers of what it needs, and `quick` to those that need no server and no JVM."""
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        for need in NEEDS:
            if need.fixtures & used:
                item.add_marker(need.marker)
        if not any(item.get_closest_marker(need.marker) for need in NEEDS):
            item.add_marker(QUICK)


def heaviest_need(item: pytest.Item) -> str:
    """The need that decides where a test runs."""
    return next((need.marker for need in NEEDS if item.get_closest_marker(need.marker)), QUICK)


def timeout_of(item: pytest.Item) -> float:
    """The test's own time limit on an idle machine, in seconds."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker and marker.args else DEFAULT_TIMEOUT_S


def name_units(items: Iterable[pytest.Item]) -> dict[str, str]:
    """The unit of each test: tests that share a fixture of module scope stay together, quick ones run in small lots."""
    seen: Counter[str] = Counter()
    units: dict[str, str] = {}
    for item in items:
        module = item.nodeid.partition("::")[0]
        seen[module] += 1
        if (variant := _shared_variant(item)) is not None:
            unit = GROUP_SEPARATOR.join([module, *variant])
        elif item.get_closest_marker(QUICK):
            unit = f"{module}{GROUP_SEPARATOR}{seen[module] // QUICK_LOT}"
        else:
            unit = item.nodeid
        units[item.nodeid] = f"{heaviest_need(item)}{GROUP_SEPARATOR}{unit}"
    return units


def _shared_variant(item: pytest.Item) -> list[str] | None:
    """The parameters of the fixtures that a test shares with others of its module; None if it shares none."""
    definitions = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009
    shared = [name for name, found in definitions.items() if found[-1].scope in ("module", "class", "package")]
    callspec = getattr(item, "callspec", None)
    variant = [f"{name}={callspec.params[name]}" for name in shared if callspec and name in callspec.params]
    return variant if shared else None


def longest_first(items: Sequence[pytest.Item], units: Mapping[str, str]) -> list[pytest.Item]:
    """Start what lasts longest: tests with long time limits, then those that need the most; else keep the order."""
    longest: dict[str, float] = {}
    for item in items:
        unit = units[item.nodeid]
        longest[unit] = max(longest.get(unit, 0.0), timeout_of(item))
    return sorted(items, key=lambda item: (-longest[units[item.nodeid]], RANKS.get(heaviest_need(item), len(NEEDS))))


class SchedulingByNeed(LoadScopeScheduling):
    """Hands out units in order, but each kind of server to a limited number of test processes.

    Only workers see the tests themselves, so they leave the units' names in a file.
    """

    def __init__(self, config: pytest.Config, log: Producer, units_file: Path) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._units_file = units_file
        self._units: dict[str, str] = {}
        self._holders: dict[str, set[WorkerController]] = {marker: set() for marker in LIMITS}

    def schedule(self) -> None:
        self._units = self._units or json.loads(self._units_file.read_text())
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]

    def _reschedule(self, node: WorkerController) -> None:
        # A process starts a test only when it knows the next one; more than that would be held back from the others.
        if self.workqueue and self._pending_of(self.assigned_work[node]) > 1:
            return
        super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        unit = next((unit for unit in self.workqueue if self._may_run(node, unit)), None)
        if unit is None:
            # All that is left belongs to other processes. A node that waits for more work does not run its last test.
            node.shutdown()
            return
        need = unit.partition(GROUP_SEPARATOR)[0]
        if need in self._holders:
            self._holders[need].add(node)
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)

    def _may_run(self, node: WorkerController, unit: str) -> bool:
        need = unit.partition(GROUP_SEPARATOR)[0]
        holders = self._holders.get(need)
        return holders is None or node in holders or len(holders) < LIMITS[need]
