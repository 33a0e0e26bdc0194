"""A cluster of real Pulsar brokers with a lake beside it, and the few verbs that tests of it need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenkeel.adapters.lake.store import Lake
from evenkeel.local.real_pulsar.cluster import RealCluster
from evenkeel.local.real_pulsar.configuration import ClusterShape
from evenkeel.local.real_pulsar.jars import DEFAULT_VERSION
from evenkeel.local.real_pulsar.operator import Operator, operating
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.run import RunRecord
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager, SnapshotManifest
from evenkeel.stages.snapshot import take_snapshot
from support.approvals import apply_plan
from support.commands import evenkeel
from support.plans import make_transfers, rows, store_plan
from support.pulsar_traffic import TrafficFigures
from support.waiting import scaled

PROJECT = Path(__file__).resolve().parents[2]
# As many bundles each, so that every range occurs once in each of them.
NAMESPACES = ("shop/orders", "shop/returns", "shop/stock")
BUNDLES_OF_EACH = 4
BUNDLES = BUNDLES_OF_EACH * len(NAMESPACES)
# All brokers share this machine's cores, so its cpu says nothing about any of them. Waits are for a busy machine.
SETTINGS = {
    "cpu_resource_weight": 0.0,
    # The clients of a test send a few messages a second, which leaves every broker nearly idle.
    "min_utilisation": 0.0,
    "session_timeout_s": scaled(10.0),
    "step_deadline_s": scaled(120.0),
    "verify_wait_s": scaled(90.0),
    "admin_call_timeout_s": scaled(60.0),
    "safe_mode_wait_s": 3.0,
}
TAKE_SETTINGS = ("snapshot", "plan", "drain", "apply", "verify", "rollback")
COMMAND_DEADLINE_S = 900.0


@dataclass
class RealScene:
    """A running cluster of a kind, its operator, and a lake."""

    cluster: RealCluster
    operator: Operator
    home: Path
    settings: Settings
    figures: list[TrafficFigures] = field(default_factory=list)
    """What the clients of each story saw, in order."""

    @property
    def kind(self) -> LoadManager:
        return self.cluster.shape.kind

    @property
    def connection(self) -> ClusterConnection:
        return self.cluster.connection

    @property
    def lake(self) -> Lake:
        return Lake(str(self.home / "lake"))

    @property
    def brokers(self) -> list[str]:
        return [address.broker_id for address in self.cluster.brokers]

    def skew(self) -> Mapping[str, str]:
        """Place the bundles so that the first broker has most of them and the last one none; returns the owners."""
        first, second, _ = self.brokers
        self.operator.place(self.bundles(), [first, first, second])
        return self.operator.owners()

    def bundles(self) -> list[str]:
        """The bundles of all namespaces now."""
        return [bundle for namespace in NAMESPACES for bundle in self.operator.bundles(namespace)]

    def plan_transfers(self, count: int, **wishes: Any) -> str:
        """A plan made by hand, approved: the first bundles go each to the next broker."""
        manifest = self.snapshot()
        return store_plan(self.lake, manifest, make_transfers(self.lake, manifest, count), **wishes)

    def snapshot(self) -> SnapshotManifest:
        return take_snapshot(self.lake, self.connection, self.settings)

    def rows(self, manifest: SnapshotManifest, name: str, table: type) -> list[Any]:
        return rows(self.lake, manifest, name, table)

    def apply(self, plan_id: str, **wishes: Any) -> RunRecord:
        return apply_plan(self.lake, plan_id, self.connection, self.settings, **wishes)

    def run(self, *words: object, live: bool = False) -> Any:
        """Run an `evenkeel` command, which must succeed; returns its JSON document."""
        where = ("--zookeeper", self.connection.zookeeper) if live else ()
        settings = ("--settings", self.home / "settings.toml") if words[0] in TAKE_SETTINGS else ()
        answer = evenkeel(
            *words,
            *where,
            *("--lake", self.home / "lake"),
            *settings,
            "--json",
            cwd=self.home,
            deadline_s=COMMAND_DEADLINE_S,
        )
        assert answer.code == 0, f"{words}: {answer.err}"
        return answer.document


@contextmanager
def real_scene(
    kind: LoadManager, home: Path, version: str = DEFAULT_VERSION, **broker_settings: str
) -> Iterator[RealScene]:
    """Start a cluster with namespaces of equal ranges; its logs stay in the folder for a failed test to show."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "settings.toml").write_text("".join(f"{key} = {value}\n" for key, value in SETTINGS.items()))
    (home / "evenkeel.toml").write_text("[approval]\nunsigned = true\n")
    shape = ClusterShape(kind, version=version, broker_settings=broker_settings)
    print(f"real brokers {version} of kind {kind} log into {home}")
    with (
        RealCluster(home / "cluster", shape, PROJECT / ".evenkeel" / "pulsar-jars") as cluster,
        operating(cluster) as op,
    ):
        for namespace in NAMESPACES:
            op.make_namespace(namespace, BUNDLES_OF_EACH)
        yield RealScene(cluster, op, home, Settings(**SETTINGS))


def shown(steps: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Where a plan puts its bundles in the end."""
    return {step["bundle"]: step["destination"] for step in steps if step["kind"] == "transfer"}
