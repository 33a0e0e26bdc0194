"""The way back from a run: the inverse of what its journal says was done, as far as it can still be undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evenkeel.model.plan import ROLLBACK, Rejection, Step, StepKind
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import Bundle
from evenkeel.planning.assembly import PlannedCluster
from evenkeel.planning.by_hand import KnownCluster, draw_up, make_step
from evenkeel.planning.ordering.budgets import WAVE_BUDGETS, Cost, Ledger
from evenkeel.planning.pools import live_broker_ids
from evenkeel.planning.rules.receiving import Receivers

_UNTOUCHED = (StepState.SKIPPED, StepState.PROVED)
_FOR_GOOD = frozenset({"split", "unload", "gone", "back", "moved-on"})


@dataclass(frozen=True, slots=True)
class Deed:
    """A step that a run began: what the plan asked for, and what the journal says became of it."""

    kind: StepKind
    entry: JournalEntry


def plan_way_back(known: KnownCluster, plan_id: str, deeds: Iterable[Deed]) -> PlannedCluster:
    """A plan that brings each bundle back to its former owner, last step first; what cannot go back is told why.

    A bundle goes back only if it is still where the run put it: what another hand did since is not undone. A former
    owner that has restarted is as good as before, if it is Active and may own the bundle.
    """
    receivers = Receivers(known.brokers, known.policies, known.settings)
    steps: list[Step] = []
    rejections: list[Rejection] = []
    for deed in sorted(deeds, key=lambda deed: deed.entry.order, reverse=True):
        if deed.entry.state in _UNTOUCHED:
            continue
        obstacle = _find_obstacle(known, receivers, deed)
        if obstacle is not None:
            rejections.append(_reject(deed.entry.bundle, deed.entry.source, *obstacle))
            continue
        bundle = known.bundle(deed.entry.bundle)
        assert bundle is not None
        reason = f"undoes step {deed.entry.order} of plan {plan_id[:12]}"
        steps.append(make_step(known, StepKind.TRANSFER, bundle, reason, destination=deed.entry.source))
    kept, dropped = _keep_legal(known, steps)
    return draw_up(known, kept, ROLLBACK, [*rejections, *dropped])


def is_left_to_undo(made: PlannedCluster) -> bool:
    """Whether something is still where the run put it, or on its way, so that it goes back now or may later."""
    return bool(made.steps) or any(row.rule not in _FOR_GOOD for row in made.rejections)


def _find_obstacle(known: KnownCluster, receivers: Receivers, deed: Deed) -> tuple[str, str] | None:
    """The rule that keeps a step from being undone, and its words; None where nothing does."""
    entry = deed.entry
    if deed.kind is StepKind.SPLIT:
        return "split", "a split is not undone: Pulsar cannot join bundles again"
    if deed.kind is StepKind.UNLOAD or entry.destination is None:
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
    """Say what keeps a bundle from being where the run put it."""
    if ServiceUnitState(bundle.state).is_in_flight:
        return "in-flight", f"{bundle.bundle} is in flight ({bundle.state})"
    if bundle.owner == entry.source:
        return "back", f"{bundle.bundle} is with {entry.source} already"
    if bundle.owner != entry.destination:
        return "moved-on", f"{bundle.bundle} is owned by {bundle.owner or 'nobody'} now, not by {entry.destination}"
    return None


def _keep_legal(known: KnownCluster, steps: Sequence[Step]) -> tuple[list[Step], list[Rejection]]:
    """Cut steps into waves that keep every hard rule; what no wave can take is told why.

    A step that is not legal together with its wave is tried once more in a wave of its own after all others; one that
    is not legal there either cannot be undone.
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


def _find_broken(known: KnownCluster, steps: Sequence[Step]) -> set[str]:
    """The bundles whose steps break a hard rule; what the plan as a whole breaks is the gate's to tell."""
    orders = {violation.order for violation in known.find_violations(steps)}
    return {step.bundle for step in steps if step.order in orders}


def _explain_illegal(known: KnownCluster, step: Step) -> Rejection:
    alone = known.find_violations([replace(step, order=0, wave=0)])
    rule, detail = (alone[0].rule, alone[0].detail) if alone else ("waves", "it would break a rule beside the others")
    return _reject(step.bundle, step.destination, rule, detail)


def _cut_waves(known: KnownCluster, steps: Sequence[Step]) -> list[list[Step]]:
    """A canary, then waves of the set size, each within the budgets of a wave."""
    waves: list[list[Step]] = []
    ledger = Ledger(WAVE_BUDGETS, known.settings)
    for step in steps:
        cost = Cost(
            1,
            step.throughput_in_bytes_per_s + step.throughput_out_bytes_per_s,
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
    """Number waves and steps anew, without gaps."""
    ordered: list[Step] = []
    for place, wave in enumerate(waves):
        ordered += [replace(step, wave=place, order=len(ordered) + index) for index, step in enumerate(wave)]
    return ordered


def _reject(bundle: str, broker: str | None, rule: str, detail: str) -> Rejection:
    return Rejection("", "bundle", bundle, broker, rule, detail)
