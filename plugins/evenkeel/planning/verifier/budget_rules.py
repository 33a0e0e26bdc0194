"""Budget rules: add up what a plan costs and find the budgets that it exceeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from evenkeel.model.bundles import tenant_of
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.problem.budgets import PLAN_BUDGETS, TENANT_BUDGETS, WAVE_BUDGETS, BudgetRule, Cost
from evenkeel.planning.problem.columns import Ints
from evenkeel.planning.problem.disruption import step_prices
from evenkeel.planning.problem.problem import number
from evenkeel.planning.verifier.units import Units, Violation


def find_budget_faults(steps: Sequence[Step], units: Units, settings: Settings) -> Iterator[Violation]:
    """Check the budgets of plan, tenants and waves against the load of the snapshot, not the load that steps state."""
    costs = _costs(steps, units, settings)
    yield from _find_excess(PLAN_BUDGETS, ["the plan"] * len(steps), costs, settings)
    yield from _find_excess(TENANT_BUDGETS, [f"tenant {tenant_of(s.bundle)}" for s in steps], costs, settings)
    yield from _find_excess(WAVE_BUDGETS, [f"wave {step.wave}" for step in steps], costs, settings)
    yield from _find_large_waves(steps, settings)
    yield from _find_many_splits(steps, units, settings)


def _costs(steps: Sequence[Step], units: Units, settings: Settings) -> Ints:
    """One row per step, in the order of the fields of `Cost`; a split moves no load and disconnects no client."""
    costs = np.zeros((len(steps), len(Cost._fields)), dtype=np.int64)
    costs[:, Cost._fields.index("steps")] = 1
    for kind in (StepKind.TRANSFER, StepKind.UNLOAD):
        places = [place for place, s in enumerate(steps) if s.kind == kind and s.bundle in units.rows]
        rows = [units.rows[steps[place].bundle] for place in places]
        _, throughput_in, throughput_out = units.load[rows].T
        sessions = units.sessions[rows]
        costs[places, Cost._fields.index("bytes_per_s")] = throughput_in + throughput_out
        costs[places, Cost._fields.index("sessions")] = sessions
        costs[places, Cost._fields.index("client_ms")] = step_prices(kind, sessions, throughput_out, settings)
    return costs


def _find_excess(
    rules: Iterable[BudgetRule], scope_of_step: Sequence[str], costs: Ints, settings: Settings
) -> Iterator[Violation]:
    scopes, scope_numbers = number(scope_of_step)
    totals = np.zeros((len(scopes), costs.shape[1]), dtype=np.int64)
    np.add.at(totals, scope_numbers, costs)
    for rule in rules:
        limit = rule.limit(settings)
        if limit is None:
            continue
        spent = totals[:, Cost._fields.index(rule.field)]
        for place in np.flatnonzero(spent > limit).tolist():
            unit = rule.field.replace("_per_s", "/s").replace("_", "-")
            detail = f"{scopes[place]} takes {spent[place]:,} {unit}, where {rule.setting} allows {limit:,}"
            yield Violation(rule.name, None, detail)


def _find_large_waves(steps: Sequence[Step], settings: Settings) -> Iterator[Violation]:
    for wave, size in sorted(Counter(step.wave for step in steps).items()):
        most = settings.wave_steps if wave else settings.canary_steps
        if size > most:
            yield Violation("wave-size", None, f"wave {wave} has {size} steps, but at most {most} are allowed")


def _find_many_splits(steps: Sequence[Step], units: Units, settings: Settings) -> Iterator[Violation]:
    splits = [step for step in steps if step.kind == StepKind.SPLIT]
    most = settings.max_number_of_bundles_to_split_per_cycle
    if len(splits) > most:
        yield Violation("split-budget", None, f"{len(splits)} splits, but at most {most} are allowed in a plan")
    namespaces = Counter(units.namespace[units.rows[step.bundle]] for step in splits if step.bundle in units.rows)
    for namespace, added in sorted(namespaces.items()):
        bundles = int((units.namespace[: units.in_snapshot] == namespace).sum()) + added
        most = settings.namespace_maximum_bundles
        if bundles > most:
            detail = f"{namespace} would have {bundles} bundles, but at most {most} are allowed"
            yield Violation("namespace-bundles", None, detail)
