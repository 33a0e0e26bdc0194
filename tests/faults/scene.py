"""The cluster that a run is about: a small fleet under a root of its own, and a plan for it, judged and approved.

4 brokers, 24 bundles      wave 0: one transfer (the canary)      wave 1: four      wave 2: three
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from evenkeel import __version__
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.fleet.fleet import Fleet
from evenkeel.fleet.settings import FleetSettings, LoadManagerKind
from evenkeel.model.bundles import BundleName
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.figures import Balance
from evenkeel.model.plan import Plan, Step, StepKind, digest_rows, invert
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from evenkeel.planning.cluster.figures import count_steps, describe_disruption
from faults.history import is_part
from support.approvals import approve, judge

CLUSTER = "fleet"
MOST_LOADED = 0
"""The fleet gives its first broker most; what is unloaded there goes elsewhere."""
STEPS = 8
IN_FLIGHT_STEPS = 3
FLEET: dict[str, Any] = {
    "cluster": CLUSTER,
    "brokers": 4,
    "bundles": 24,
    "session_timeout_s": 20.0,
    "hand_over_delay_s": 0.03,
    # Later than the writer's own look-up: a modular leader's note of the destination serves one of them.
    "clients_look_up_after_s": 0.4,
    "report_interval_s": 2.0,
    "monitor_interval_s": 0.5,
    "in_flight_limit_s": 4.0,
    "traffic_step_s": 60.0,
    "admin_timeout_s": 10.0,
    "stable_session_s": 1.0,
}
WRITER: dict[str, Any] = {
    "session_timeout_s": 1.0,
    "in_flight_steps": IN_FLIGHT_STEPS,
    "step_deadline_s": 8.0,
    "admin_call_timeout_s": 4.0,
    "unload_again_after_s": 1.0,
    "safe_mode_wait_s": 0.5,
    "safe_mode_deadline_s": 3.0,
    "stop_wait_s": 2.0,
    "verify_wait_s": 0.0,
}


def writer_settings(**changes: Any) -> Settings:
    """The writer's settings with waits scaled to sessions of a second; a name that is not known is left out."""
    known = {field.name for field in dataclasses.fields(Settings)}
    return Settings(**{name: value for name, value in (WRITER | changes).items() if name in known})


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A plan in the lake and what it holds."""

    plan_id: str
    steps: tuple[Step, ...]
    policy_paths: frozenset[str]
    expires_at: datetime
    approved_at_ms: int


class Scene:
    """A fleet that runs under a root which no other run uses."""

    def __init__(
        self,
        name: str,
        hosts: str,
        operator: KazooClient,
        folder: Path,
        kind: LoadManager,
        configuration_hosts: str | None = None,
    ) -> None:
        self.root = f"/{name}"
        self.kind = kind
        self.operator = operator
        self.lake_folder = folder / name
        self.lake = Lake(str(self.lake_folder))
        self.connection = ClusterConnection(
            CLUSTER,
            hosts,
            pulsar_root=self.root,
            evenkeel_root=f"{self.root}-evenkeel",
            configuration_zookeeper=configuration_hosts,
            timeout_s=5.0,
        )
        settings = FleetSettings(
            root=self.root,
            load_manager=LoadManagerKind.MODULAR if kind is LoadManager.MODULAR else LoadManagerKind.EXTENSIBLE,
            has_system_topic_view=kind is LoadManager.EXTENSIBLE_SYSTEM_TOPIC,
            configuration_zookeeper=configuration_hosts or "",
            **FLEET,
        )
        self.fleet = Fleet(settings, hosts)

    def __enter__(self) -> Self:
        self.fleet.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.fleet.stop()

    @property
    def units(self) -> str:
        return self.fleet.paths.owners(self.kind)

    def registrations(self) -> dict[str, int]:
        """The brokers that are registered, with their incarnations."""
        base = self.fleet.paths.brokers
        found = {name: self.operator.exists(f"{base}/{name}") for name in self.operator.get_children(base)}
        is_modular = self.kind is LoadManager.MODULAR
        return {name: int(stat.czxid if is_modular else stat.mzxid) for name, stat in found.items()}

    def record(self, bundle: str) -> tuple[ServiceUnitRecord, int] | None:
        """A bundle's record and its node's version."""
        try:
            data, stat = self.operator.get(f"{self.units}/{bundle}")
        except NoNodeError:
            return None
        return ServiceUnitRecord.decode(data, bundle), stat.version

    def switches(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.operator.get(self.fleet.paths.configuration)[0] or b"{}")
        return found

    def make_plan(self, expires_at: datetime, configuration: KazooClient | None = None) -> PlannedRun:
        """Plan transfers of the first bundles of each broker to the next one, as of now, and approve them."""
        steps = self._make_steps()
        paths, cluster, shared = self.fleet.paths, self.fleet.settings.cluster, configuration or self.operator
        stores = {paths.isolation(cluster): shared, paths.configuration: self.operator}
        for domain in shared.get_children(paths.failure_domains(cluster)):
            stores[paths.failure_domain(cluster, domain)] = shared
        versions = {
            path: PolicyVersion(stat.czxid, stat.version) if (stat := store.exists(path)) else None
            for path, store in stores.items()
        }
        return self._store(steps, versions, expires_at)

    def make_another_plan(self, plan: PlannedRun) -> str:
        """A plan with the same steps under an id of its own, approved like the first; none of it is left to be done."""
        return self._store(plan.steps, {}, plan.expires_at + timedelta(seconds=1)).plan_id

    def _store(
        self, steps: Sequence[Step], versions: dict[str, PolicyVersion | None], expires_at: datetime
    ) -> PlannedRun:
        plan = _make_plan(self.kind, steps, versions, expires_at)
        PlanStore(self.lake).write(plan, steps, [], [])
        judge(self.lake, plan.plan_id)
        approved_at = datetime.now(UTC)
        approve(self.lake, plan.plan_id)
        approved_at_ms = int(approved_at.timestamp() * 1000)
        return PlannedRun(plan.plan_id, tuple(steps), frozenset(versions), expires_at, approved_at_ms)

    def _make_steps(self) -> list[Step]:
        incarnations = self.registrations()
        brokers = sorted(incarnations)
        # By the end of the name, so that the bundles of a namespace are not all neighbours in the plan.
        owners = sorted(self.fleet.owners().items(), key=lambda item: (item[0][::-1], item[1]))
        movable = [(bundle, owner) for bundle, owner in owners if not bundle.startswith("pulsar/")]
        unloaded = next(item for item in movable if item[1] == brokers[MOST_LOADED])
        canary, cut, *others = [item for item in movable if item != unloaded]
        parent = BundleName.parse(cut[0])
        boundary = (parent.range.lower + parent.range.upper) // 2
        child = (f"{parent.namespace}/{parent.range.split_at(boundary)[1]}", cut[1])
        planned = [
            (0, StepKind.TRANSFER, canary),
            (1, StepKind.SPLIT, cut),
            (1, StepKind.UNLOAD, unloaded),
            *((1, StepKind.TRANSFER, other) for other in others[:2]),
            (2, StepKind.TRANSFER, child),
            *((2, StepKind.TRANSFER, other) for other in others[2:4]),
        ]
        return [
            self._make_step(
                order, wave, kind, bundle, source, incarnations, boundary if kind is StepKind.SPLIT else None
            )
            for order, (wave, kind, (bundle, source)) in enumerate(planned)
        ]

    def _make_step(
        self,
        order: int,
        wave: int,
        kind: StepKind,
        bundle: str,
        source: str,
        incarnations: dict[str, int],
        boundary: int | None,
    ) -> Step:
        brokers = sorted(incarnations)
        destination = brokers[(brokers.index(source) + 1) % len(brokers)] if kind is StepKind.TRANSFER else None
        version = None
        if self.kind is LoadManager.EXTENSIBLE:
            found = self.record(bundle)
            # A child that is not there yet will begin at the first version.
            version = found[0].version_id if found else 1
        return Step(
            order=order,
            wave=wave,
            kind=kind,
            bundle=bundle,
            source=source,
            source_incarnation=incarnations[source],
            destination=destination,
            destination_incarnation=incarnations[destination] if destination else None,
            expected_version_id=version,
            throughput_in_bytes_per_s=0,
            throughput_out_bytes_per_s=0,
            cpu_millipercent=0,
            topics=1,
            sessions=2,
            disruption_client_ms=0,
            reason="the harness wants it",
            split_boundary=boundary,
        )

    def are_settled(self, steps: Sequence[Step], disturbed: Collection[str] = ()) -> bool:
        """Whether no bundle of these steps is in flight; a modular cluster has no node of one that is.

        Nor has it one of a bundle whose broker has died, until a client asks for it.
        """
        if self.kind is LoadManager.MODULAR:
            served = {step.bundle for step in steps if self.operator.exists(f"{self.units}/{step.bundle}") is not None}
            lasting = [step.bundle for step in steps if step.kind != StepKind.SPLIT and step.bundle not in disturbed]
            # Where a bundle was not split after all, its parts are served with it.
            return all(any(is_part(bundle, whole) for whole in served) for bundle in lasting)
        found = [self.record(step.bundle) for step in steps]
        return not any(one is not None and one[0].state.is_in_flight for one in found)

    def move_by_foreign_hand(self, bundle: str) -> str | None:
        """Transfer a bundle past the writer, legally, to a broker that the plan does not name for it."""
        found = self.record(bundle)
        if found is None or found[0].state is not ServiceUnitState.OWNED:
            return None
        record, version = found
        chosen = next(b for b in sorted(self.registrations(), reverse=True) if b != record.destination)
        moved = ServiceUnitRecord(
            ServiceUnitState.RELEASING,
            int(time.time() * 1000),
            record.version_id + 1,
            destination=chosen,
            source=record.destination,
        )
        self.operator.set(f"{self.units}/{bundle}", moved.encode(), version=version)
        return chosen

    def mark_draining(self, broker: str) -> None:
        """What `evenkeel drain` does to a broker before it plans."""
        self.operator.ensure_path(f"{self.connection.home}/draining")
        self.operator.create(f"{self.connection.home}/draining/{broker}", b'{"who": "ada", "reason": "maintenance"}')

    def pull_kill_switch(self) -> None:
        """What `evenkeel stop` does: the node, and a raised fence, in one transaction."""
        home = self.connection.home
        self.operator.ensure_path(f"{home}/fence")
        transaction = self.operator.transaction()
        transaction.create(f"{home}/stop", b'{"who": "ada", "reason": "the harness says so"}')
        transaction.set_data(f"{home}/fence", b"stop")
        transaction.commit()

    def release_kill_switch(self) -> None:
        self.operator.delete(f"{self.connection.home}/stop")


def _make_plan(
    kind: LoadManager, steps: Sequence[Step], versions: dict[str, PolicyVersion | None], expires_at: datetime
) -> Plan:
    return Plan(
        cluster=CLUSTER,
        load_manager=str(kind),
        snapshot_id="20260101T000000Z-000000000000",
        profile_id="",
        candidates_id="",
        strategy="certified",
        strategy_version=1,
        settings=Settings().to_json(),
        policy_versions=versions,
        anti_affinity={},
        expires_at=expires_at,
        step_counts=count_steps(steps),
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows([]),
        brokers_sha256=digest_rows([]),
        inverse_sha256=digest_rows(invert(list(steps))),
        balance=Balance({}, {}),
        bounds=None,
        gap=None,
        disruption=describe_disruption(steps),
        violations=None,
        curve=(),
        pools=(),
        counterfactual=(),
        truncated=False,
        library_version=__version__,
    )
