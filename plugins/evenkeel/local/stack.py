"""Clusters on this machine: an embedded ZooKeeper with a fleet of simulated brokers, or with real Pulsar brokers."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.local.real_pulsar.cluster import RealCluster
from evenkeel.local.real_pulsar.configuration import ClusterShape
from evenkeel.local.real_pulsar.jars import DEFAULT_JARS_HOME, DEFAULT_VERSION
from evenkeel.local.real_pulsar.operator import operating
from evenkeel.local.supervised import SupervisedProcess
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import UnavailableError
from evenkeel.model.snapshot import LoadManager

FLEET_CLUSTER = "fleet"
REAL_CLUSTER = "pulsar"
REAL_NAMESPACE = "evenkeel/local"
FLEET_START_DEADLINE_S = 120.0
# Modular brokers whose load changes little report every 15 minutes, and verification waits for 20 s only.
FLEET_REPORT_MAX_INTERVAL_S = 10.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class FleetSize:
    """How many brokers and bundles to run, with which load manager, and whether the brokers are real."""

    brokers: int
    bundles: int
    load_manager: str
    seed: int
    is_real: bool = False
    version: str = DEFAULT_VERSION


class LocalStack:
    """ZooKeeper and simulated brokers; they end with the process that started them."""

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
    def addresses(self) -> dict[str, str]:
        """Where clients connect: nowhere, since simulated brokers carry no messages."""
        return {}

    @property
    def _ready_file(self) -> Path:
        return self._home / "fleet.ready"

    def _fleet_command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "evenkeel.fleet", "--zookeeper", self._zookeeper.connect_string),
            *("--cluster", FLEET_CLUSTER, "--ready-file", str(self._ready_file)),
            *("--brokers", str(self._size.brokers), "--bundles", str(self._size.bundles)),
            *("--load-manager", self._size.load_manager, "--seed", str(self._size.seed)),
            *("--report-max-interval-s", str(FLEET_REPORT_MAX_INTERVAL_S)),
        ]

    def _wait_until_serving(self, fleet: SupervisedProcess) -> None:
        deadline_s = time.monotonic() + FLEET_START_DEADLINE_S
        while not self._ready_file.exists():
            if fleet.poll() is not None or time.monotonic() > deadline_s:
                raise UnavailableError("the simulated brokers did not start", f"read {self._home / 'fleet.log'}")
            time.sleep(POLL_S)


class RealStack:
    """ZooKeeper, a bookie and real brokers with one namespace; they end with the process that started them."""

    def __init__(self, home: Path, size: FleetSize, jars_home: Path = DEFAULT_JARS_HOME) -> None:
        shape = ClusterShape(LoadManager(size.load_manager), size.brokers, REAL_CLUSTER, size.version)
        self._cluster = RealCluster(home / "pulsar", shape, jars_home)
        self._size = size
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            starting.enter_context(self._cluster)
            with operating(self._cluster) as operator:
                bundles = operator.make_namespace(REAL_NAMESPACE, self._size.bundles)
                operator.place(bundles, [address.broker_id for address in self._cluster.brokers])
            self._stack = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def connection(self) -> ClusterConnection:
        return self._cluster.connection

    @property
    def addresses(self) -> dict[str, str]:
        """Where clients connect, which namespace they can use, and where the admin API is."""
        return {
            "service_url": self._cluster.service_url,
            "namespace": REAL_NAMESPACE,
            "web_service_url": self._cluster.brokers[0].web_url,
        }
