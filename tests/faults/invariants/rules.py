"""What a step must keep to: I6 hard rules, I7 budgets."""

from __future__ import annotations

import json

from evenkeel.model.bundles import BundleName
from evenkeel.model.plan import Step
from evenkeel.model.policies import IsolationPolicy, Policies
from evenkeel.pulsar_rules.eligibility import Eligibility
from faults.facts import Begin
from faults.history import History
from faults.invariants.findings import SLACK_MS, Findings


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
    # A registration that was written again is another broker, where brokers write it once.
    incarnation = registration.zxid if facts.has_records else registration.czxid
    if incarnation != step.destination_incarnation and age_ms > SLACK_MS:
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
    for edited_ms in history.facts.policy_edits_ms:
        if edited_ms + SLACK_MS < wave_ms:
            return f"wave {step.wave} began after policies had changed in the configuration store"
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
            return history.is_under_way(begin, zxid)
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
