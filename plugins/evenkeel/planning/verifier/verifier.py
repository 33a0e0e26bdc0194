"""Check any plan, whoever made it, against the rules that no plan may break."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evenkeel.model.plan import Step
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.problem.disruption import pricing_of
from evenkeel.planning.problem.receiving import Receivers
from evenkeel.planning.splitting.cuts import Cut
from evenkeel.planning.verifier.budget_rules import find_budget_faults
from evenkeel.planning.verifier.replay import find_load_faults
from evenkeel.planning.verifier.step_rules import Excluded, StepRules, find_split_faults
from evenkeel.planning.verifier.units import Units, Violation

__all__ = ["Violation", "find_violations"]


def find_violations(
    steps: Sequence[Step],
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    cuts: Mapping[str, Cut] | None = None,
) -> list[Violation]:
    """Find every violation in a plan for this snapshot; a legal plan gives an empty list.

    Waves are replayed one by one, and each has to be legal for any subset and any order of its steps. A split leaves
    two children with its owner. An unloaded bundle leaves for an unknown broker, because Pulsar decides where it goes.

    `cuts` tell which part of a split bundle each child carries. Without its cut a child may not move, because all other
    rules would rely on what the step states.
    """
    units = Units.of(bundles, steps)
    brokers_by_id = {broker.broker_id: broker for broker in brokers}
    excluded = Excluded(
        policies.excluded_namespaces | frozenset(settings.shedding_excluded_namespaces),
        frozenset(settings.pinned_bundles),
        frozenset(settings.brokers_left_alone),
    )
    rules = StepRules(units, brokers_by_id, Receivers(brokers, policies, settings), excluded)
    found = [*_check_order(steps), *_check_repeats(steps)]
    found += find_budget_faults(steps, units, pricing_of(brokers[0].load_manager if brokers else "", settings))
    for step in steps:
        found += rules.check(step)
    found += find_split_faults(steps, units, brokers_by_id, cuts or {})
    known = [step for step in steps if rules.can_be_replayed(step)]
    necessary = frozenset(step.order for step in known if rules.is_necessary(step))
    found += find_load_faults(known, units, brokers, bundles, policies, settings, necessary)
    return found


def _check_order(steps: Sequence[Step]) -> Iterator[Violation]:
    if [step.order for step in steps] != list(range(len(steps))):
        yield Violation("order", None, "the steps are not numbered 0, 1, 2 … in their order")
    waves = [step.wave for step in steps]
    if waves != sorted(waves) or sorted(set(waves)) != list(range(len(set(waves)))):
        yield Violation("waves", None, "the waves are not numbered 0, 1, 2 … in the order of the steps")


def _check_repeats(steps: Sequence[Step]) -> Iterator[Violation]:
    seen: set[str] = set()
    for step in steps:
        if step.bundle in seen:
            yield Violation("moved-twice", step.order, f"an earlier step already changes {step.bundle}")
        seen.add(step.bundle)
