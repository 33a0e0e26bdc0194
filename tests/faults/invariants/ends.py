"""How everything must end: I9 where an uninterrupted run ends, I11 with Pulsar's switches as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping

from evenkeel.model.bundles import BundleName
from evenkeel.model.plan import Step, StepKind
from faults.history import History
from faults.invariants.findings import Findings

SWITCHES = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")


def find_other_ends(history: History) -> Findings:
    """I9: an interrupted and resumed run ends where an uninterrupted one does, bundles in other hands apart."""
    facts, end = history.facts, history.end_zxid
    in_other_hands = facts.disturbed | history.overridden | history.deviated | history.reincarnated
    begun = {begin.bundle for begin in history.begins}
    for step in facts.steps:
        if step.bundle in in_other_hands:
            continue
        if not facts.must_finish and step.bundle not in begun:
            wanted, is_right = f"with {step.source}", _stayed(history, step)
        else:
            wanted, is_right = _describe_end(step), _has_ended(history, step)
        if not is_right:
            owner = history.owner_at(step.bundle, end)
            yield end, f"{step.bundle} ends with {owner or 'nobody'}, an uninterrupted run ends {wanted}"
    # A failed step keeps a run from ever being done, and where another hand led the bundle away, that is right.
    has_reason = bool(history.failed) and history.failed <= in_other_hands
    if facts.must_finish and not facts.is_done and not has_reason:
        yield end, "the last run of the plan did not end as done, and no bundle in other hands explains it"


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
