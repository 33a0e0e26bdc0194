"""The rollback of a run: the inverse of what its journal says was done, as far as it can still be undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evenkeel.model.canonical import short_id
from evenkeel.model.errors import InputError
from evenkeel.model.plan import ROLLBACK, Plan, Rejection, Step, StepKind, digest_rows, invert
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import Bundle
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.manual.build_plan import LoadedSnapshot, build_plan, make_step
from evenkeel.planning.problem.budgets import WAVE_BUDGETS, Cost, Ledger
from evenkeel.planning.problem.pools import live_broker_ids
from evenkeel.planning.problem.receiving import Receivers

_UNTOUCHED = (StepState.SKIPPED, StepState.PROVED)
_FOR_GOOD = frozenset({"split", "unload", "gone", "back", "moved-on"})


@dataclass(frozen=True, slots=True)
class AppliedStep:
    """A step that a run started: what the plan asked for, and what the journal says happened."""

    kind: StepKind
    entry: JournalEntry


def require_inverse(plan: Plan, steps: Sequence[Step]) -> None:
    """Refuse a plan whose steps do not lead back the way that was approved with it."""
    if digest_rows(invert(steps)) != plan.inverse_sha256:
        raise InputError(
            f"plan {short_id(plan.plan_id)} names another inverse plan than the one that its steps have",
            "undo its moves one by one with `evenkeel move`",
        )


def build_rollback(known: LoadedSnapshot, plan_id: str, applied: Iterable[AppliedStep]) -> PlannedCluster:
    """A plan that returns each bundle to its former owner, last step first; each that cannot go back has its reason.

    A bundle goes back only if it is still where the run put it: later changes by others are not undone. A former owner
    that restarted will do, if it is Active and may own the bundle.
    """
    receivers = Receivers(known.brokers, known.policies, known.settings)
    steps: list[Step] = []
    rejections: list[Rejection] = []
    for done in sorted(applied, key=lambda done: done.entry.order, reverse=True):
        if done.entry.state in _UNTOUCHED:
            continue
        obstacle = _find_obstacle(known, receivers, done)
        if obstacle is not None:
            rejections.append(_reject(done.entry.bundle, done.entry.source, *obstacle))
            continue
        bundle = known.bundle(done.entry.bundle)
        assert bundle is not None
        reason = f"undoes step {done.entry.order} of plan {short_id(plan_id)}"
        steps.append(make_step(known, StepKind.TRANSFER, bundle, reason, destination=done.entry.source))
    kept, dropped = _keep_legal(known, steps)
    return build_plan(known, kept, ROLLBACK, [*rejections, *dropped])


def is_left_to_undo(made: PlannedCluster) -> bool:
    """Whether a bundle is still where the run put it, or in flight, so that it can go back now or later."""
    return bool(made.steps) or any(row.rule not in _FOR_GOOD for row in made.rejections)


def _find_obstacle(known: LoadedSnapshot, receivers: Receivers, done: AppliedStep) -> tuple[str, str] | None:
    """The rule that keeps a step from being undone, with its sentence; None if it can be undone."""
    entry = done.entry
    if done.kind is StepKind.SPLIT:
        return "split", "a split is not undone: Pulsar cannot join bundles again"
    if done.kind is StepKind.UNLOAD or entry.destination is None:
        return "unload", "an unload is not undone: Pulsar chose the new owner; `evenkeel move` brings it back"
    bundle = known.bundle(entry.bundle)
    if bundle is None:
        return "gone", f"{entry.bundle} is not there any more; it was split since"
    moved_on = _find_change(bundle, entry)
    if moved_on is not None:
        return moved_on
    former = known.broker_by_id.get(entry.source)
    if former is None or former.broker_id not in live_broker_ids(known.brokers):
        return "not-registered", f"its former owner {entry.source} is not registered any more"
    return receivers.find_refusal(bundle.namespace, known.broker_by_id.get(str(bundle.owner)), former)


def _find_change(bundle: Bundle, entry: JournalEntry) -> tuple[str, str] | None:
    """Say how a bundle has changed since the run moved it; None if it has not."""
    if ServiceUnitState(bundle.state).is_in_flight:
        return "in-flight", f"{bundle.bundle} is in flight ({bundle.state})"
    if bundle.owner == entry.source:
        return "back", f"{bundle.bundle} is with {entry.source} already"
    if bundle.owner != entry.destination:
        return "moved-on", f"{bundle.bundle} is owned by {bundle.owner or 'nobody'} now, not by {entry.destination}"
    return None


def _keep_legal(known: LoadedSnapshot, steps: Sequence[Step]) -> tuple[list[Step], list[Rejection]]:
    """Cut steps into waves that keep every hard rule, and explain each step that fits into none.

    A step that is illegal within its wave is tried once more in a wave of its own after all others. If it is illegal
    there too, it cannot be undone.
    """
    early, late = list(steps), list[Step]()
    while True:
        ordered = _number([*_cut_waves(known, early), *([step] for step in late)])
        broken = _find_broken(known, ordered)
        if not broken:
            kept = {step.bundle for step in ordered}
            return ordered, [_explain_illegal(known, step) for step in steps if step.bundle not in kept]
        late = [step for step in late if step.bundle not in broken] + [s for s in early if s.bundle in broken]
        early = [step for step in early if step.bundle not in broken]


def _find_broken(known: LoadedSnapshot, steps: Sequence[Step]) -> set[str]:
    """The bundles whose steps break a hard rule; the gate reports rules that the plan as a whole breaks."""
    orders = {violation.order for violation in known.find_violations(steps)}
    return {step.bundle for step in steps if step.order in orders}


def _explain_illegal(known: LoadedSnapshot, step: Step) -> Rejection:
    alone = known.find_violations([replace(step, order=0, wave=0)])
    rule, detail = (alone[0].rule, alone[0].detail) if alone else ("waves", "it would break a rule beside the others")
    return _reject(step.bundle, step.destination, rule, detail)


def _cut_waves(known: LoadedSnapshot, steps: Sequence[Step]) -> list[list[Step]]:
    """A canary, then waves of the configured size, each within the budgets of a wave."""
    waves: list[list[Step]] = []
    ledger = Ledger(WAVE_BUDGETS, known.settings)
    for step in steps:
        cost = Cost(
            1,
            step.moved_bytes_per_s,
            step.sessions,
            step.disruption_client_ms,
        )
        most = known.settings.canary_steps if len(waves) <= 1 else known.settings.wave_steps
        if not waves or len(waves[-1]) >= most or ledger.refusal(cost) is not None:
            waves.append([])
            ledger = Ledger(WAVE_BUDGETS, known.settings)
        ledger.spend(cost)
        waves[-1].append(step)
    return waves


def _number(waves: Iterable[Sequence[Step]]) -> list[Step]:
    """Renumber waves and steps without gaps."""
    ordered: list[Step] = []
    for place, wave in enumerate(waves):
        ordered += [replace(step, wave=place, order=len(ordered) + index) for index, step in enumerate(wave)]
    return ordered


def _reject(bundle: str, broker: str | None, rule: str, detail: str) -> Rejection:
    return Rejection("", "bundle", bundle, broker, rule, detail)
