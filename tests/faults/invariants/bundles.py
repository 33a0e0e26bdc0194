"""What a bundle may go through: I3 the state machine, I5 the ring."""

from __future__ import annotations

import json

from evenkeel.model.bundles import BundleName, BundleRange, find_ring_fault, ranges_between
from evenkeel.model.errors import InputError
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.pulsar_rules.state_machine import find_conflict
from faults.facts import NodeState
from faults.history import History, decode_record
from faults.invariants.findings import Findings


def find_illegal_changes(history: History) -> Findings:
    """I3: each bundle's history is a path of Pulsar's state machine; only brokers force."""
    if not history.facts.has_records:
        return
    for bundle, states in history.below(history.units).items():
        before: ServiceUnitRecord | None = None
        for state in states:
            if not _is_unit(bundle):
                continue
            try:
                record = None if state.data is None else decode_record(state.data, state.path)
            except InputError as error:
                yield state.zxid, error.cause
                continue
            conflict = find_conflict(before, record)
            if conflict is not None:
                yield state.zxid, f"{bundle}: {conflict}"
            if record is not None and record.force and state.transaction.session not in history.broker_sessions:
                yield state.zxid, f"{bundle} was forced by a session that is no broker's"
            before = record


def find_ring_faults(history: History) -> Findings:
    """I5: ranges always tile the ring: the boundaries in every version, the records without an overlap."""
    for namespace, states in history.below(f"{history.facts.root}/admin/local-policies/").items():
        for state in states:
            fault = _boundary_fault(state)
            if fault is not None:
                yield state.zxid, f"the boundaries of {namespace} have {fault}"
    if history.facts.has_records:
        yield from _find_overlaps(history)


def _boundary_fault(state: NodeState) -> str | None:
    if not state.data:
        return None
    try:
        texts = json.loads(state.data)["bundles"]["boundaries"]
        return find_ring_fault(ranges_between(int(text, 16) for text in texts))
    except (ValueError, KeyError, TypeError, InputError) as error:
        return f"no meaning ({error})"


def _find_overlaps(history: History) -> Findings:
    units = [name for name in history.below(history.units) if _is_unit(name)]
    for name in units:
        for state in history.states[history.units + name]:
            record = history.record_at(name, state.zxid)
            if not _is_serving(record):
                continue
            own = BundleName.parse(name)
            for other in units:
                rival = BundleName.parse(other)
                if (
                    other != name
                    and rival.namespace == own.namespace
                    and _overlap(rival.range, own.range)
                    and _is_serving(history.record_at(other, state.zxid))
                ):
                    yield state.zxid, f"{name} and {other} are in service at the same time"


def _is_serving(record: ServiceUnitRecord | None) -> bool:
    # A parent that is being split stays beside its children until it is deleted.
    is_leaving = (ServiceUnitState.SPLITTING, ServiceUnitState.DELETED, ServiceUnitState.FREE)
    return record is not None and record.state not in is_leaving


def _overlap(one: BundleRange, other: BundleRange) -> bool:
    return one.lower < other.upper and other.lower < one.upper


def _is_unit(name: str) -> bool:
    try:
        BundleName.parse(name)
    except InputError:
        return False
    return True
