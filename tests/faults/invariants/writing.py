"""Who wrote what: I1 no step twice, I2 no write with an old epoch, I8 journal entry ⇔ effect.

For clusters whose steps are admin calls they read: never two intents open for a bundle, no call begun with an old
epoch, every intent has an outcome in the end.
"""

from __future__ import annotations

from itertools import pairwise

from evenkeel.model.plan import Step, StepKind
from faults.facts import CONCLUSIONS, INTENDED, Begin, EntryWrite
from faults.history import History, is_in_flight
from faults.invariants.findings import Findings
from faults.txn_log import CREATIONS, Transaction, TxnType


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
    yield from _find_removed_writers(history)
    for entry in history.entries:
        told, real = entry.fields.get("epoch"), history.epoch_of(entry.transaction.session, entry.transaction.zxid)
        if told != real:
            yield entry.transaction.zxid, f"entry {entry.order} tells epoch {told}, its writer had {real}"


def _find_removed_writers(history: History) -> Findings:
    """The node `writer` stands for a live session: only that session may remove it, or ZooKeeper with its end."""
    states = history.states.get(f"{history.facts.home}/writer", [])
    for made, removed in pairwise(states):
        transaction = removed.transaction
        is_removed = removed.data is None and transaction.type is not TxnType.CLOSE_SESSION
        if is_removed and transaction.session != made.transaction.session:
            yield removed.zxid, "the node of another writer was removed"


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
