"""How everything must end: I9 where an uninterrupted run ends, I11 with Pulsar's switches as they were."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from evenkeel.model.bundles import BundleName, ranges_between
from evenkeel.model.plan import Step, StepKind
from faults.history import History
from faults.invariants.findings import Findings

OFF = "false"
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
            wanted, is_right = _describe_end(step), _has_ended(history, step, in_other_hands)
        if not is_right:
            owner = history.owner_at(step.bundle, end)
            yield end, f"{step.bundle} ends with {owner or 'nobody'}, an uninterrupted run ends {wanted}"
    if facts.is_done and history.failed:
        yield end, f"the last run of the plan ended as done, but the journal says that {min(history.failed)} failed"
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


def _has_ended(history: History, step: Step, in_other_hands: Collection[str]) -> bool:
    end = history.end_zxid
    match step.kind:
        case StepKind.TRANSFER:
            return history.owner_at(step.bundle, end) == step.destination
        case StepKind.SPLIT:
            parent = BundleName.parse(step.bundle)
            assert step.split_boundary is not None
            children = [f"{parent.namespace}/{part}" for part in parent.range.split_at(step.split_boundary)]
            # A child that went on to a broker which then died is with nobody until a client asks for it.
            is_cut = all(child in in_other_hands or history.is_there(child, end) for child in children)
            return is_cut and not _is_served(history, parent, end)
        case _:
            begins = [begin for begin in history.begins if begin.bundle == step.bundle]
            return bool(begins) and history.landing_of(begins[0]) is not None


def _is_served(history: History, bundle: BundleName, zxid: int) -> bool:
    """Whether a bundle is in use. On a modular cluster its boundaries decide.

    A broker that has not heard of a split yet, as ZooKeeper was away, may take the former bundle once more.
    """
    if history.facts.has_records:
        return history.is_there(str(bundle), zxid)
    state = history.at(f"{history.facts.root}/admin/local-policies/{bundle.namespace}", zxid)
    assert state is not None
    assert state.data is not None
    boundaries = json.loads(state.data)["bundles"]["boundaries"]
    return bundle.range in ranges_between(int(text, 16) for text in boundaries)


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
    expected |= facts.set_by_operator
    found: Mapping[str, str] = json.loads(end.data) if end is not None and end.data else {}
    for key in SWITCHES:
        # Whoever writes the configuration without a visible change may have meant either switch: both are left.
        may_be_left = bool(facts.set_by_operator) and key not in facts.set_by_operator and found.get(key) == OFF
        if found.get(key) != expected.get(key) and not may_be_left:
            yield history.end_zxid, f"{key} ends as {found.get(key)}, it was {expected.get(key)}"
