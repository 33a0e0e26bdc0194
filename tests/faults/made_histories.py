"""Histories made by hand: one that is good, out of pieces that a test can leave out, repeat or spoil.

1 the cluster      2 the fence is taken      3 the step's transaction      4 the brokers hand over
5 the journal says settled      6 the fence is let go
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evenkeel.model.plan import Step, StepKind
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from faults.facts import RunFacts
from faults.history import History
from faults.txn_log import Operation, Transaction, TxnType

ROOT, HOME, PLAN = "/pulsar", "/evenkeel/fleet", "plan"
A, B, C = "a:8080", "b:8080", "c:8080"
BROKER, WRITER, RIVAL, OPERATOR, STRANGER = 1, 10, 11, 20, 30
BUNDLES = ("t/n/0x00000000_0x40000000", "t/n/0x40000000_0x80000000", "t/n/0x80000000_0xffffffff")
START_MS, STEP_MS, DEADLINE_MS = 1_000_000, 10, 1_000
MORE_THAN_SLACK_MS = 1_300
SWITCHES = {"loadBalancerSheddingEnabled": "true"}


def step(order: int, wave: int = 0, **changes: Any) -> Step:
    made = Step(
        order=order,
        wave=wave,
        kind=StepKind.TRANSFER,
        bundle=BUNDLES[order],
        source=A,
        source_incarnation=2,
        destination=B,
        destination_incarnation=3,
        expected_version_id=1,
        throughput_in_bytes_per_s=0,
        throughput_out_bytes_per_s=0,
        cpu_millipercent=0,
        topics=1,
        sessions=5,
        disruption_client_ms=0,
        reason="",
    )
    return dataclasses.replace(made, **changes)


@dataclass(slots=True)
class Maker:
    """Writes a history down, transaction by transaction, as ZooKeeper would."""

    steps: tuple[Step, ...] = (step(0),)
    is_admin_call: bool = False
    transactions: list[Transaction] = field(default_factory=list)
    now_ms: int = START_MS
    versions: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def write(self, session: int, *operations: Operation, error: int = 0) -> None:
        """One transaction; nodes count their versions by themselves."""
        done = []
        for operation in operations:
            if operation.type is TxnType.SET_DATA:
                self.versions[operation.path] = self.versions.get(operation.path, 0) + 1
            elif operation.type is TxnType.CREATE:
                self.versions[operation.path] = 0
            done.append(dataclasses.replace(operation, version=self.versions.get(operation.path, 0)))
        if error:
            done.append(Operation(TxnType.ERROR, error=error))
        self.now_ms += STEP_MS
        zxid = len(self.transactions) + 1
        kind = TxnType.MULTI if len(operations) > 1 else operations[0].type
        self.transactions.append(Transaction(zxid, self.now_ms, session, zxid, kind, tuple(done)))

    def build_cluster(self) -> None:
        """Three brokers, three bundles of the first one, boundaries and switches."""
        self.write(BROKER, put(f"{ROOT}/admin/configuration", json.dumps(SWITCHES).encode()))
        for broker in (A, B, C):
            document = json.dumps({"pulsarServiceUrl": broker}).encode()
            self.write(BROKER, put(f"{ROOT}/loadbalance/brokers/{broker}", document, is_ephemeral=True))
        self.set_boundaries("0x00000000", "0x40000000", "0x80000000", "0xffffffff")
        for bundle in BUNDLES:
            self.write(BROKER, put(self.unit(bundle), self.owned(A)))
        self.write(OPERATOR, put(f"{HOME}/fence", b""))

    def unit(self, bundle: str) -> str:
        return f"{ROOT}/{'namespace' if self.is_admin_call else 'service_unit_state'}/{bundle}"

    def owned(self, broker: str) -> bytes:
        if self.is_admin_call:
            return json.dumps({"nativeUrl": broker}).encode()
        return record(ServiceUnitState.OWNED, 1, destination=broker)

    def set_boundaries(self, *boundaries: str) -> None:
        document = json.dumps({"bundles": {"boundaries": boundaries}}).encode()
        path = f"{ROOT}/admin/local-policies/t/n"
        self.write(BROKER, change(path, document) if path in self.versions else put(path, document))

    def acquire(self, session: int = WRITER) -> None:
        self.write(session, change(f"{HOME}/fence", b"token"), put(f"{HOME}/writer", b"{}", is_ephemeral=True))

    def begin(self, number: int = 0, session: int = WRITER, epoch: int = 1, **spoilt: Any) -> None:
        """A step's transaction; `spoilt` leaves parts out or changes them."""
        planned = self.steps[number]
        destination = spoilt.get("destination", planned.destination)
        version = spoilt.get("version_id", 2)
        releasing = record(ServiceUnitState.RELEASING, version, destination, A, spoilt.get("force", False))
        parts = {
            "fence": check(f"{HOME}/fence"),
            "effect": change(self.unit(planned.bundle), releasing),
            "journal": put(self.entry_path(planned), self.entry(planned, "applied", epoch)),
        }
        if self.is_admin_call:
            parts |= {"journal": put(self.entry_path(planned), self.entry(planned, "intended", epoch))}
            del parts["effect"]
        self.write(session, *(part for name, part in parts.items() if name not in spoilt.get("without", ())))

    def hand_over(self, number: int = 0, to: str = B) -> None:
        path = self.unit(self.steps[number].bundle)
        if self.is_admin_call:
            self.write(BROKER, Operation(TxnType.DELETE, path))
            self.write(BROKER, put(path, self.owned(to)))
            return
        self.write(BROKER, change(path, record(ServiceUnitState.ASSIGNING, 3, to, A)))
        self.write(BROKER, change(path, record(ServiceUnitState.OWNED, 4, to, A)))

    def conclude(
        self, number: int = 0, state: str = "settled", session: int = WRITER, epoch: int = 1, detail: str = ""
    ) -> None:
        planned = self.steps[number]
        path = self.entry_path(planned)
        data = self.entry(planned, state, epoch, detail)
        is_known = path in self.versions
        self.write(session, check(f"{HOME}/fence"), change(path, data) if is_known else put(path, data))

    def release(self, session: int = WRITER) -> None:
        self.write(session, check(f"{HOME}/fence"), Operation(TxnType.DELETE, f"{HOME}/writer"))

    def configure(self, session: int, **switches: str) -> None:
        data = json.dumps(SWITCHES | switches).encode()
        operations = [change(f"{ROOT}/admin/configuration", data)]
        self.write(session, *([check(f"{HOME}/fence")] if session == WRITER else []), *operations)

    def entry_path(self, planned: Step) -> str:
        return f"{HOME}/plans/{PLAN}/steps/{planned.order:06d}"

    def override(self, number: int = 0, to: str = C) -> None:
        """Pulsar's leader leads a bundle elsewhere by force."""
        path = self.unit(self.steps[number].bundle)
        self.write(BROKER, change(path, record(ServiceUnitState.OWNED, 3, to, A, force=True)))

    def register_again(self, broker: str) -> None:
        """A broker's session ends, and it comes back with a new one."""
        path = f"{ROOT}/loadbalance/brokers/{broker}"
        self.write(BROKER, Operation(TxnType.DELETE, path))
        self.write(BROKER, put(path, json.dumps({"pulsarServiceUrl": broker}).encode(), is_ephemeral=True))

    def entry(self, planned: Step, state: str, epoch: int, detail: str = "") -> bytes:
        told = {"order": planned.order, "bundle": planned.bundle, "state": state, "epoch": epoch, "detail": detail}
        return json.dumps(told).encode()

    def history(self) -> History:
        facts: dict[str, Any] = {
            "root": ROOT,
            "home": HOME,
            "cluster": "fleet",
            "plan_id": PLAN,
            "steps": self.steps,
            "in_flight_steps": 2,
            "step_deadline_ms": DEADLINE_MS,
            "ends_at_ms": START_MS + 3_600_000,
            "approved_at_ms": START_MS,
            "switches_before": SWITCHES,
            "foreign_sessions": frozenset({OPERATOR}),
            "is_admin_call": self.is_admin_call,
            "has_records": not self.is_admin_call,
            "max_steps": len(self.steps),
            "policy_paths": frozenset({f"{ROOT}/admin/clusters/fleet/namespaceIsolationPolicies"}),
            "start_zxid": 9,
        }
        return History(self.transactions, RunFacts(**facts | self.facts))


def good(is_admin_call: bool = False) -> Maker:
    """One step, all the way."""
    made = Maker(is_admin_call=is_admin_call)
    made.build_cluster()
    made.acquire()
    made.begin()
    made.hand_over()
    made.conclude()
    made.release()
    return made


def started(*steps: Step, **facts: Any) -> Maker:
    """A run that has just taken the fence."""
    made = Maker(steps=steps or (step(0),), facts=facts)
    made.build_cluster()
    made.acquire()
    return made


def finish(made: Maker, number: int = 0) -> Maker:
    """The brokers hand a step's bundle over, and the journal says so."""
    made.hand_over(number)
    made.conclude(number)
    return made


Bad = tuple[tuple[str, Callable[[], Maker]], ...]
"""Histories that must not pass, each with the invariant that it breaks."""


def record(
    state: ServiceUnitState,
    version_id: int,
    destination: str | None = None,
    source: str | None = None,
    force: bool = False,
) -> bytes:
    return ServiceUnitRecord(state, START_MS, version_id, destination, source, force=force).encode()


def put(path: str, data: bytes, is_ephemeral: bool = False) -> Operation:
    return Operation(TxnType.CREATE, path, data, is_ephemeral=is_ephemeral)


def change(path: str, data: bytes) -> Operation:
    return Operation(TxnType.SET_DATA, path, data)


def check(path: str) -> Operation:
    return Operation(TxnType.CHECK, path)
