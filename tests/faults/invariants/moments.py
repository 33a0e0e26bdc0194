"""When something may happen: I4 nothing goes on past a deadline, I10 nothing at a forbidden moment."""

from __future__ import annotations

from faults.facts import Acquisition, Begin
from faults.history import History
from faults.invariants.findings import SLACK_MS, Findings


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
            if is_late and begin.bundle != later.bundle and history.is_under_way(begin, later.transaction.zxid - 1):
                yield later.transaction.zxid, f"{later.bundle} began while {begin.bundle} was overdue"
    for begin in history.begins:
        is_left = history.end_of_flight(begin) is None
        if is_left and facts.must_finish and begin.bundle not in facts.disturbed:
            yield begin.transaction.zxid, f"{begin.bundle} never came to rest"


def _precedes(acquisition: Acquisition, begin: Begin) -> bool:
    return acquisition.transaction.zxid < begin.transaction.zxid


def find_forbidden_moments(history: History) -> Findings:
    """I10: nothing outside the window or unapproved, nothing after the kill switch, nothing that is not in the plan.

    Nor with a clock that is off: Pulsar's leader overrides a record that looks old.
    """
    facts = history.facts
    for begin in history.begins:
        zxid, time_ms = begin.transaction.zxid, begin.transaction.time_ms
        if facts.approved_at_ms is None or time_ms < facts.approved_at_ms:
            yield zxid, f"{begin.bundle} began without an approval"
        epoch = history.epoch_of(begin.transaction.session, zxid)
        ends_at_ms = min(facts.ends_at_ms, facts.until_ms.get(epoch, facts.ends_at_ms))
        if time_ms > ends_at_ms + SLACK_MS:
            yield zxid, f"{begin.bundle} began {time_ms - ends_at_ms} ms after the end of the window"
        if history.at(f"{facts.home}/stop", zxid - 1) is not None:
            yield zxid, f"{begin.bundle} began after the kill switch was pulled"
        offset_ms = 0 if begin.record is None else abs(begin.record.timestamp_ms - time_ms)
        if facts.clock_limit_ms is not None and offset_ms > facts.clock_limit_ms + SLACK_MS:
            yield zxid, f"the record of {begin.bundle} tells a time that is {offset_ms} ms off"
        if begin.step is None:
            yield zxid, f"{begin.bundle} is not in the plan"
        elif begin.record is not None and begin.record.destination != begin.step.destination:
            yield zxid, f"{begin.bundle} was sent to {begin.record.destination}, planned is {begin.step.destination}"
