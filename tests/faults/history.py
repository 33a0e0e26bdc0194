"""A run's history as ZooKeeper wrote it down: every node's states in order, and what the writers did among them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import InputError
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from faults.facts import CONCLUSIONS, FAILED, INTENDED, Acquisition, Begin, EntryWrite, NodeState, RunFacts
from faults.txn_log import CREATIONS, DELETIONS, Transaction, TxnType


class History:
    """All states of all nodes of one run."""

    def __init__(self, transactions: Sequence[Transaction], facts: RunFacts) -> None:
        self.facts = facts
        self.transactions = transactions
        self.states: dict[str, list[NodeState]] = defaultdict(list)
        self._replay(transactions)

    @property
    def units(self) -> str:
        """Where the cluster keeps the owners of its bundles."""
        return f"{self.facts.root}/{'service_unit_state' if self.facts.has_records else 'namespace'}/"

    @property
    def fence(self) -> str:
        return f"{self.facts.home}/fence"

    @property
    def journal(self) -> str:
        return f"{self.facts.home}/plans/{self.facts.plan_id}/steps/"

    @property
    def end_zxid(self) -> int:
        return self.transactions[-1].zxid if self.transactions else 0

    @cached_property
    def committed(self) -> list[Transaction]:
        return [transaction for transaction in self.transactions if not transaction.is_refused]

    def at(self, path: str, zxid: int) -> NodeState | None:
        """A node as it was after a zxid; None where there was none."""
        states = self.states.get(path, [])
        place = bisect_right(states, zxid, key=lambda state: state.zxid)
        found = states[place - 1] if place else None
        return None if found is None or found.data is None else found

    def below(self, prefix: str) -> dict[str, list[NodeState]]:
        """The states of all nodes below a path, by what follows it."""
        return {path.removeprefix(prefix): found for path, found in self.states.items() if path.startswith(prefix)}

    @cached_property
    def broker_sessions(self) -> frozenset[int]:
        found = self.below(f"{self.facts.root}/loadbalance/brokers/").values()
        return frozenset(state.transaction.session for states in found for state in states if state.data is not None)

    @cached_property
    def acquisitions(self) -> list[Acquisition]:
        """Who took the fence when: the transactions that raise it and make the writer's node."""
        writer = f"{self.facts.home}/writer"
        return [
            Acquisition(transaction, operation.version)
            for transaction in self.committed
            for operation in transaction.operations
            if operation.type is TxnType.SET_DATA
            and operation.path == self.fence
            and any(other.path == writer and other.type in CREATIONS for other in transaction.operations)
        ]

    def epoch_of(self, session: int, zxid: int) -> int | None:
        """The newest epoch that a session has taken before a zxid."""
        epochs = [
            found.epoch
            for found in self.acquisitions
            if found.transaction.session == session and found.transaction.zxid < zxid
        ]
        return epochs[-1] if epochs else None

    @cached_property
    def entries(self) -> list[EntryWrite]:
        """All writes of the plan's journal, in order."""
        found = [
            EntryWrite(state.transaction, int(name), state.version == 0, _decode_json(state.data) if state.data else {})
            for name, states in self.below(self.journal).items()
            for state in states
            if state.data is not None
        ]
        return sorted(found, key=lambda entry: (entry.transaction.zxid, entry.order))

    @cached_property
    def steps_by_bundle(self) -> dict[str, Step]:
        return {step.bundle: step for step in self.facts.steps}

    @cached_property
    def begins(self) -> list[Begin]:
        """Every effect that a writer had on a bundle, in order."""
        if self.facts.is_admin_call:
            return [
                Begin(entry.transaction, entry.bundle, None, self.steps_by_bundle.get(entry.bundle))
                for entry in self.entries
                if entry.state == INTENDED
            ]
        others = self.broker_sessions | self.facts.foreign_sessions
        return [
            Begin(
                transaction,
                bundle := operation.path.removeprefix(self.units),
                _try_decode(operation.data, operation.path),
                self.steps_by_bundle.get(bundle),
            )
            for transaction in self.committed
            if transaction.session not in others
            for operation in transaction.operations
            if operation.type is not TxnType.CHECK and operation.path.startswith(self.units) and operation.data
        ]

    @cached_property
    def overridden(self) -> frozenset[str]:
        """Bundles, and their parts, that Pulsar's leader has led elsewhere by force: where they end is its decision."""
        forced = {
            name
            for name, states in self.below(self.units).items()
            for state in states
            if state.zxid > self.facts.start_zxid and state.data and b'"force":true' in state.data
        }
        parts = {step.bundle for step in self.facts.steps if any(is_part(step.bundle, whole) for whole in forced)}
        return frozenset(forced | parts)

    @cached_property
    def reincarnated(self) -> frozenset[str]:
        """Bundles of steps that name a broker whose registration has ended since: no longer the plan's own broker."""
        brokers = self.below(f"{self.facts.root}/loadbalance/brokers/")
        ended = {
            name
            for name, states in brokers.items()
            if any(state.data is None and state.zxid > self.facts.start_zxid for state in states)
        }
        return frozenset(step.bundle for step in self.facts.steps if ended & {step.source, step.destination})

    def record_at(self, bundle: str, zxid: int) -> ServiceUnitRecord | None:
        """A bundle's record after a zxid; None where there is none that can be read."""
        state = self.at(self.units + bundle, zxid)
        return None if state is None or state.data is None else _try_decode(state.data, state.path)

    def owner_at(self, bundle: str, zxid: int) -> str | None:
        """Who serves a bundle after a zxid."""
        if self.facts.has_records:
            record = self.record_at(bundle, zxid)
            return record.owner if record else None
        state = self.at(self.units + bundle, zxid)
        return None if state is None or not state.data else self._broker_of(_decode_json(state.data), zxid)

    def landing_of(self, begin: Begin) -> NodeState | None:
        """The first state after a step's effect in which its bundle is at rest again."""
        for state in self.states.get(self.units + begin.bundle, []):
            if state.zxid > begin.transaction.zxid and self._is_at_rest(state, begin.step):
                return state
        return None

    def end_of_flight(self, begin: Begin) -> int | None:
        """The zxid from which a step is no longer under way; None where it never ended.

        An admin call may have been refused, or never made: then the journal's conclusion ends it.
        """
        landing = self.landing_of(begin)
        ends = [] if landing is None else [landing.zxid]
        if self.facts.is_admin_call:
            ends += [
                entry.transaction.zxid
                for entry in self.entries
                if entry.bundle == begin.bundle
                and entry.state in CONCLUSIONS
                and entry.transaction.zxid > begin.transaction.zxid
            ]
        return min(ends, default=None)

    def is_under_way(self, begin: Begin, zxid: int) -> bool:
        """Whether a step that has begun is not yet at rest after a zxid."""
        end = self.end_of_flight(begin)
        return end is None or end > zxid

    @cached_property
    def failed(self) -> frozenset[str]:
        """Bundles of steps that the journal calls failed in the end."""
        last = {entry.bundle: entry.state for entry in self.entries}
        return frozenset(bundle for bundle, state in last.items() if state == FAILED)

    @cached_property
    def deviated(self) -> frozenset[str]:
        """Bundles of admin calls that Pulsar has led elsewhere, where the journal says to whom.

        The destination of an admin call is a wish: a client's look-up may come first. What is not told so is no excuse.
        """
        if not self.facts.is_admin_call:
            return frozenset()
        last = {entry.bundle: entry for entry in self.entries}
        return frozenset(bundle for bundle in self.failed if self._tells_the_owner(last[bundle]))

    def is_there(self, bundle: str, zxid: int) -> bool:
        """Whether a bundle has an owner, or is on the way to one."""
        state = self.at(self.units + bundle, zxid)
        return state is not None and (not self.facts.has_records or not is_gone(self.record_at(bundle, zxid)))

    def _tells_the_owner(self, entry: EntryWrite) -> bool:
        """Whether a bundle was given to somebody after the first call for it, and the entry says to whom."""
        begun = min(begin.transaction.zxid for begin in self.begins if begin.bundle == entry.bundle)
        states = self.states.get(self.units + entry.bundle, [])
        owners = {self.owner_at(entry.bundle, s.zxid) for s in states if begun < s.zxid <= entry.transaction.zxid}
        told = str(entry.fields.get("detail"))
        return any(f" {owner}" in told for owner in owners if owner is not None)

    def _is_at_rest(self, state: NodeState, step: Step | None) -> bool:
        if not self.facts.has_records:
            # What is split, or unloaded, may stay without a node.
            return state.data is not None or (step is not None and not is_transfer(step))
        record = _try_decode(state.data, state.path) if state.data else None
        return record is None or not record.state.is_in_flight

    def _broker_of(self, document: Mapping[str, Any], zxid: int) -> str | None:
        for path in self.states:
            registration = self.at(path, zxid) if path.startswith(f"{self.facts.root}/loadbalance/brokers/") else None
            if registration is not None and registration.data:
                told = _decode_json(registration.data)
                if told.get("pulsarServiceUrl") == document.get("nativeUrl"):
                    return path.rpartition("/")[2]
        return None

    def _replay(self, transactions: Iterable[Transaction]) -> None:
        ephemerals: dict[int, set[str]] = defaultdict(set)
        for transaction in transactions:
            if transaction.is_refused:
                continue
            if transaction.type is TxnType.CLOSE_SESSION:
                for path in sorted(ephemerals.pop(transaction.session, ())):
                    self._put(transaction, path, None, -1, 0)
            for operation in transaction.operations:
                if operation.type in CREATIONS:
                    self._put(transaction, operation.path, operation.data, 0, transaction.zxid)
                    if operation.is_ephemeral:
                        ephemerals[transaction.session].add(operation.path)
                elif operation.type is TxnType.SET_DATA:
                    before = self.states[operation.path]
                    czxid = before[-1].czxid if before else 0
                    self._put(transaction, operation.path, operation.data, operation.version, czxid)
                elif operation.type in DELETIONS:
                    self._put(transaction, operation.path, None, -1, 0)
                    for owned in ephemerals.values():
                        owned.discard(operation.path)

    def _put(self, transaction: Transaction, path: str, data: bytes | None, version: int, czxid: int) -> None:
        if path.startswith((f"{self.facts.root}/", f"{self.facts.home}/")):
            self.states[path].append(NodeState(transaction, path, data, version, czxid))


def is_part(bundle: str, whole: str) -> bool:
    """Whether a bundle's range is inside another's."""
    one, other = BundleName.parse(bundle), BundleName.parse(whole)
    return one.namespace == other.namespace and other.range.lower <= one.range.lower < other.range.upper


def is_transfer(step: Step) -> bool:
    return step.kind == StepKind.TRANSFER


def is_in_flight(record: ServiceUnitRecord | None) -> bool:
    return record is not None and record.state.is_in_flight


def decode_record(data: bytes, path: str) -> ServiceUnitRecord:
    return ServiceUnitRecord.decode(data, path)


def is_gone(record: ServiceUnitRecord | None) -> bool:
    return record is None or record.state is ServiceUnitState.DELETED


def _try_decode(data: bytes, path: str) -> ServiceUnitRecord | None:
    try:
        return ServiceUnitRecord.decode(data, path)
    except InputError:
        return None


def _decode_json(data: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(data or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
