"""Judges a run's history by the invariants of the guarded writer, I1 to I11; each is one small function.

For clusters whose steps are admin calls I1, I2 and I8 read: never two intents open for a bundle, no call begun with an
old epoch, every intent has an outcome in the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from evenkeel.model.bundles import BundleName, BundleRange, find_ring_fault, ranges_between
from evenkeel.model.errors import InputError
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.policies import IsolationPolicy, Policies
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.pulsar.eligibility import Eligibility
from evenkeel.pulsar.state_machine import find_conflict
from faults.history import (
    CONCLUSIONS,
    INTENDED,
    Acquisition,
    Begin,
    EntryWrite,
    History,
    NodeState,
    decode_record,
    is_in_flight,
)
from faults.txn_log import CREATIONS, Transaction, TxnType

SLACK_MS = 2_000
"""What a check before a step may be older than the step's transaction; also how exact a deadline is kept."""
SWITCHES = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that a history breaks, where, and how."""

    invariant: str
    zxid: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.invariant} at zxid {self.zxid:#x}: {self.sentence}"


def find_violations(history: History) -> list[Violation]:
    """Everything that is wrong with a run."""
    return [
        Violation(invariant, zxid, sentence)
        for invariant, find in INVARIANTS.items()
        for zxid, sentence in find(history)
    ]


Findings = Iterator[tuple[int, str]]


def find_repeated_steps(history: History) -> Findings:
    """I1: no step twice."""
    if history.facts.is_admin_call:
        yield from _find_double_intents(history)
        return
    seen: dict[str, Begin] = {}
    for begin in history.begins:
        if begin.bundle in seen:
            first = seen[begin.bundle].transaction.zxid
            yield begin.transaction.zxid, f"{begin.bundle} was released again, the first time at {first:#x}"
        seen[begin.bundle] = begin


def _find_double_intents(history: History) -> Findings:
    open_orders: dict[str, int] = {}
    for entry in history.entries:
        if entry.state == INTENDED and open_orders.setdefault(entry.bundle, entry.order) != entry.order:
            yield entry.transaction.zxid, f"{entry.bundle} has two open intents"
        elif entry.state in CONCLUSIONS:
            open_orders.pop(entry.bundle, None)


def find_stale_writes(history: History) -> Findings:
    """I2: no write with an old epoch, and none that does not prove its epoch."""
    others = history.broker_sessions | history.facts.foreign_sessions
    for transaction in history.committed:
        is_before = transaction.zxid <= history.facts.start_zxid
        if is_before or transaction.session in others or not _guarded_paths(history, transaction):
            continue
        path = _guarded_paths(history, transaction)[0]
        epoch = history.epoch_of(transaction.session, transaction.zxid)
        fence = history.at(history.fence, transaction.zxid - 1)
        if epoch is None:
            yield transaction.zxid, f"{path} was written by a session that never took the fence"
        elif fence is None or fence.version != epoch:
            yield transaction.zxid, f"{path} was written with epoch {epoch}, the fence was at {fence and fence.version}"
        elif not any(o.type is TxnType.CHECK and o.path == history.fence for o in transaction.operations):
            yield transaction.zxid, f"{path} was written without a check of the fence"
    for entry in history.entries:
        told, real = entry.fields.get("epoch"), history.epoch_of(entry.transaction.session, entry.transaction.zxid)
        if told != real:
            yield entry.transaction.zxid, f"entry {entry.order} tells epoch {told}, its writer had {real}"


def _guarded_paths(history: History, transaction: Transaction) -> list[str]:
    """What a transaction changes of that which only the holder of the fence may change."""
    plans, configuration = f"{history.facts.home}/plans/", f"{history.facts.root}/admin/configuration"
    return [
        operation.path
        for operation in transaction.operations
        if operation.type is not TxnType.CHECK
        and (operation.path.startswith((plans, history.units)) or operation.path == configuration)
        # Empty nodes are folders; anybody may make them, and they say nothing.
        and not (operation.type in CREATIONS and operation.data in (b"", b"{}"))
    ]


def find_illegal_changes(history: History) -> Findings:
    """I3: each bundle's history is a path of Pulsar's state machine; only brokers force."""
    if history.facts.is_admin_call:
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


def find_overdue_flights(history: History) -> Findings:
    """I4: no bundle in flight past its deadline without the run having stopped."""
    facts = history.facts
    for later in history.begins:
        taken_ms = max((a.transaction.time_ms for a in history.acquisitions if _precedes(a, later)), default=0)
        begun = {b.bundle: b for b in history.begins if b.transaction.zxid < later.transaction.zxid}
        for begin in begun.values():
            # A run that takes over gives what it finds under way the whole time again.
            since_ms = max(begin.transaction.time_ms, taken_ms)
            is_late = later.transaction.time_ms > since_ms + facts.step_deadline_ms + SLACK_MS
            if is_late and begin.bundle != later.bundle and _is_under_way(history, begin, later.transaction.zxid - 1):
                yield later.transaction.zxid, f"{later.bundle} began while {begin.bundle} was overdue"
    for begin in history.begins:
        is_left = history.end_of_flight(begin) is None
        if is_left and facts.must_finish and begin.bundle not in facts.disturbed:
            yield begin.transaction.zxid, f"{begin.bundle} never came to rest"


def _precedes(acquisition: Acquisition, begin: Begin) -> bool:
    return acquisition.transaction.zxid < begin.transaction.zxid


def _is_under_way(history: History, begin: Begin, zxid: int) -> bool:
    end = history.end_of_flight(begin)
    return end is None or end > zxid


def find_ring_faults(history: History) -> Findings:
    """I5: ranges always tile the ring: the boundaries in every version, the records without an overlap."""
    for namespace, states in history.below(f"{history.facts.root}/admin/local-policies/").items():
        for state in states:
            fault = _boundary_fault(state)
            if fault is not None:
                yield state.zxid, f"the boundaries of {namespace} have {fault}"
    if not history.facts.is_admin_call:
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


def find_broken_rules(history: History) -> Findings:
    """I6: hard rules hold in every intermediate state: destinations, incarnations, policies, waves one by one."""
    for begin in history.begins:
        if begin.step is None:
            continue
        zxid = begin.transaction.zxid
        for sentence in (
            _destination_fault(history, begin, begin.step),
            _policy_fault(history, begin, begin.step),
            _eligibility_fault(history, begin, begin.step),
        ):
            if sentence is not None:
                yield zxid, sentence
        for earlier in history.facts.steps:
            if earlier.wave < begin.step.wave and _is_flying(history, earlier, zxid - 1):
                yield zxid, f"wave {begin.step.wave} began while {earlier.bundle} of wave {earlier.wave} was in flight"


def _destination_fault(history: History, begin: Begin, step: Step) -> str | None:
    if step.destination is None:
        return None
    facts, zxid = history.facts, begin.transaction.zxid - 1
    registration = history.at(f"{facts.root}/loadbalance/brokers/{step.destination}", zxid)
    if registration is None:
        return f"{begin.bundle} was sent to {step.destination}, which was not registered"
    age_ms = begin.transaction.time_ms - registration.transaction.time_ms
    # The writer compares incarnations just before it writes; what restarts in between still owns the bundle.
    if registration.czxid != step.destination_incarnation and age_ms > SLACK_MS:
        return f"{begin.bundle} was sent to {step.destination}, which is not the incarnation of the plan"
    draining = history.at(f"{facts.home}/draining/{step.destination}", zxid)
    if draining is not None and begin.transaction.time_ms - draining.transaction.time_ms > SLACK_MS:
        return f"{begin.bundle} was sent to {step.destination}, which is being drained"
    return None


def _policy_fault(history: History, begin: Begin, step: Step) -> str | None:
    """Policies are read before each wave: after a change the wave that had begun may end, none may begin."""
    transaction = begin.transaction
    taken_zxid = max(
        (a.transaction.zxid for a in history.acquisitions if a.transaction.zxid < transaction.zxid), default=0
    )
    wave_begins = [
        other
        for other in history.begins
        if other.step is not None and other.step.wave == step.wave and other.transaction.zxid > taken_zxid
    ]
    wave_ms = min(other.transaction.time_ms for other in wave_begins)
    for path in history.facts.policy_paths:
        changes = [s for s in history.states.get(path, []) if s.transaction.session in history.facts.foreign_sessions]
        for change in changes:
            if change.transaction.time_ms + SLACK_MS < wave_ms or (change.zxid < taken_zxid):
                return f"wave {step.wave} began after {path} had changed"
    return None


def _eligibility_fault(history: History, begin: Begin, step: Step) -> str | None:
    facts, zxid = history.facts, begin.transaction.zxid - 1
    policy = history.at(f"{facts.root}/admin/clusters/{facts.cluster}/namespaceIsolationPolicies", zxid)
    if policy is None or not policy.data or step.destination is None:
        return None
    if begin.transaction.time_ms - policy.transaction.time_ms <= SLACK_MS:
        return None
    listed = json.loads(policy.data)
    policies = Policies(isolation=tuple(IsolationPolicy.from_json(name, fields) for name, fields in listed.items()))
    brokers = f"{facts.root}/loadbalance/brokers/"
    live = [name for name in history.below(brokers) if history.at(brokers + name, zxid) is not None]
    namespace = BundleName.parse(begin.bundle).namespace
    if step.destination in Eligibility(live, policies).brokers_for(namespace):
        return None
    return f"{begin.bundle} was sent to {step.destination}, which isolation does not allow"


def _is_flying(history: History, step: Step, zxid: int) -> bool:
    """Whether a step's effect has happened and its bundle is not yet at rest."""
    for begin in history.begins:
        if begin.bundle == step.bundle and begin.transaction.zxid <= zxid:
            return _is_under_way(history, begin, zxid)
    return False


def find_broken_budgets(history: History) -> Findings:
    """I7: budgets hold across retries and crashes."""
    facts = history.facts
    sessions = 0
    for number, begin in enumerate(history.begins, start=1):
        zxid = begin.transaction.zxid
        flying = {step.bundle for step in facts.steps if _is_flying(history, step, zxid)}
        if len(flying) > facts.in_flight_steps:
            yield zxid, f"{len(flying)} steps were in flight, {facts.in_flight_steps} are allowed"
        if number > facts.max_steps and not facts.is_admin_call:
            yield zxid, f"{number} steps were begun, {facts.max_steps} are allowed"
        sessions += begin.step.sessions if begin.step else 0
        if facts.max_sessions is not None and sessions > facts.max_sessions:
            yield zxid, f"{sessions} sessions were disturbed, {facts.max_sessions} are allowed"


def find_unjournalled_effects(history: History) -> Findings:
    """I8: journal entry ⇔ effect, in one transaction; for admin calls every intent has an outcome in the end."""
    entries: dict[int, list[EntryWrite]] = {}
    for entry in history.entries:
        entries.setdefault(entry.order, []).append(entry)
    if not history.facts.is_admin_call:
        yield from _find_halves(history)
    for written in entries.values():
        yield from _find_false_conclusions(history, written)
        last = written[-1]
        if history.facts.must_finish and last.state not in CONCLUSIONS:
            yield last.transaction.zxid, f"step {last.order} was left {last.state} in the journal"


def _find_halves(history: History) -> Findings:
    effects = {(begin.transaction.zxid, begin.bundle) for begin in history.begins}
    opened = {(e.transaction.zxid, e.bundle) for e in history.entries if e.is_new and e.state not in ("skipped",)}
    for zxid, bundle in sorted(effects - opened):
        yield zxid, f"{bundle} was changed without a journal entry in the same transaction"
    for zxid, bundle in sorted(opened - effects):
        yield zxid, f"the journal tells of {bundle}, which the same transaction did not change"


def _find_false_conclusions(history: History, written: list[EntryWrite]) -> Findings:
    bundle = written[0].bundle
    begins = [begin for begin in history.begins if begin.bundle == bundle]
    for entry in written:
        zxid = entry.transaction.zxid
        step = history.steps_by_bundle.get(bundle)
        if entry.state == "skipped" and any(begin.transaction.zxid <= zxid for begin in begins):
            if not history.facts.is_admin_call:
                yield zxid, f"step {entry.order} is told to be skipped, but it had its effect"
        elif entry.state == "settled" and step is not None and not _has_reached_its_end(history, step, begins, zxid):
            yield zxid, f"step {entry.order} is told to be settled, but {bundle} had not arrived"


def _has_reached_its_end(history: History, step: Step, begins: list[Begin], zxid: int) -> bool:
    if not begins:
        return False
    states = [s for s in history.states[history.units + step.bundle] if begins[0].transaction.zxid < s.zxid <= zxid]
    match step.kind:
        case StepKind.TRANSFER:
            return any(history.owner_at(step.bundle, state.zxid) == step.destination for state in states)
        case StepKind.SPLIT:
            return not history.is_there(step.bundle, zxid)
        case _:
            return any(not is_in_flight(history.record_at(step.bundle, state.zxid)) for state in states)


def find_other_ends(history: History) -> Findings:
    """I9: an interrupted and resumed run ends where an uninterrupted one does."""
    facts, end = history.facts, history.end_zxid
    begun = {begin.bundle for begin in history.begins}
    for step in facts.steps:
        if step.bundle in facts.disturbed | history.overridden | history.deviated:
            continue
        if not facts.must_finish and step.bundle not in begun:
            wanted, is_right = f"with {step.source}", _stayed(history, step)
        else:
            wanted, is_right = _describe_end(step), _has_ended(history, step)
        if not is_right:
            owner = history.owner_at(step.bundle, end)
            yield end, f"{step.bundle} ends with {owner or 'nobody'}, an uninterrupted run ends {wanted}"


def _stayed(history: History, step: Step) -> bool:
    is_child = history.at(history.units + step.bundle, history.facts.start_zxid) is None
    owner = history.owner_at(step.bundle, history.end_zxid)
    return owner == step.source or (is_child and owner is None)


def _describe_end(step: Step) -> str:
    return f"with {step.destination}" if step.kind == StepKind.TRANSFER else f"after its {step.kind}"


def _has_ended(history: History, step: Step) -> bool:
    end = history.end_zxid
    match step.kind:
        case StepKind.TRANSFER:
            return history.owner_at(step.bundle, end) == step.destination
        case StepKind.SPLIT:
            parent = BundleName.parse(step.bundle)
            assert step.split_boundary is not None
            children = [f"{parent.namespace}/{part}" for part in parent.range.split_at(step.split_boundary)]
            is_cut = all(history.is_there(child, end) for child in children)
            return is_cut and not history.is_there(step.bundle, end)
        case _:
            begins = [begin for begin in history.begins if begin.bundle == step.bundle]
            return bool(begins) and history.landing_of(begins[0]) is not None


def find_forbidden_moments(history: History) -> Findings:
    """I10: nothing outside the window or unapproved, nothing after the kill switch, nothing that is not in the plan."""
    facts = history.facts
    for begin in history.begins:
        zxid, time_ms = begin.transaction.zxid, begin.transaction.time_ms
        if facts.approved_at_ms is None or time_ms < facts.approved_at_ms:
            yield zxid, f"{begin.bundle} began without an approval"
        if time_ms > facts.ends_at_ms + SLACK_MS:
            yield zxid, f"{begin.bundle} began {time_ms - facts.ends_at_ms} ms after the end of the window"
        if history.at(f"{facts.home}/stop", zxid - 1) is not None:
            yield zxid, f"{begin.bundle} began after the kill switch was pulled"
        if begin.step is None:
            yield zxid, f"{begin.bundle} is not in the plan"
        elif begin.record is not None and begin.record.destination != begin.step.destination:
            yield zxid, f"{begin.bundle} was sent to {begin.record.destination}, planned is {begin.step.destination}"


def find_switches_left_off(history: History) -> Findings:
    """I11: native switches are restored, except where another hand set them meanwhile."""
    facts = history.facts
    path = f"{facts.root}/admin/configuration"
    end = history.at(path, history.end_zxid)
    expected = dict(facts.switches_before or {})
    before: Mapping[str, str] = expected
    for state in history.states.get(path, []):
        values: Mapping[str, str] = json.loads(state.data) if state.data else {}
        if state.transaction.session in facts.foreign_sessions:
            changed = [key for key in SWITCHES if values.get(key) != before.get(key)]
            expected |= {key: values[key] for key in changed if key in values}
        before = values
    found: Mapping[str, str] = json.loads(end.data) if end is not None and end.data else {}
    for key in SWITCHES:
        if found.get(key) != expected.get(key):
            yield history.end_zxid, f"{key} ends as {found.get(key)}, it was {expected.get(key)}"


def _is_unit(name: str) -> bool:
    try:
        BundleName.parse(name)
    except InputError:
        return False
    return True


INVARIANTS: Mapping[str, Callable[[History], Findings]] = {
    "I1": find_repeated_steps,
    "I2": find_stale_writes,
    "I3": find_illegal_changes,
    "I4": find_overdue_flights,
    "I5": find_ring_faults,
    "I6": find_broken_rules,
    "I7": find_broken_budgets,
    "I8": find_unjournalled_effects,
    "I9": find_other_ends,
    "I10": find_forbidden_moments,
    "I11": find_switches_left_off,
}
