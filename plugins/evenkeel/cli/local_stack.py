"""A cluster on this machine: an embedded ZooKeeper, and a fleet of simulated brokers in a process of its own."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from evenkeel.fleet.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.fleet.supervised import SupervisedProcess
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import UnavailableError

FLEET_CLUSTER = "fleet"
FLEET_START_DEADLINE_S = 120.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class FleetSize:
    """How large the fleet is, and of which kind."""

    brokers: int
    bundles: int
    load_manager: str
    seed: int


class LocalStack:
    """ZooKeeper and fleet, ended for sure with the process that started them."""

    def __init__(self, home: Path, size: FleetSize) -> None:
        self._home = home.resolve()
        self._size = size
        self._stack = ExitStack()
        self._zookeeper = EmbeddedZooKeeper(self._home / "zookeeper")

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            starting.enter_context(self._zookeeper)
            fleet = starting.enter_context(SupervisedProcess(self._fleet_command(), self._home / "fleet.log"))
            self._wait_until_serving(fleet)
            self._stack = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def connection(self) -> ClusterConnection:
        return ClusterConnection(FLEET_CLUSTER, self._zookeeper.connect_string)

    @property
    def _ready_file(self) -> Path:
        return self._home / "fleet.ready"

    def _fleet_command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "evenkeel.fleet", "--zookeeper", self._zookeeper.connect_string),
            *("--cluster", FLEET_CLUSTER, "--ready-file", str(self._ready_file)),
            *("--brokers", str(self._size.brokers), "--bundles", str(self._size.bundles)),
            *("--load-manager", self._size.load_manager, "--seed", str(self._size.seed)),
        ]

    def _wait_until_serving(self, fleet: SupervisedProcess) -> None:
        deadline_s = time.monotonic() + FLEET_START_DEADLINE_S
        while not self._ready_file.exists():
            if fleet.poll() is not None or time.monotonic() > deadline_s:
                raise UnavailableError("the fleet did not start", f"read {self._home / 'fleet.log'}")
            time.sleep(POLL_S)
