"""What Pulsar's own strategies would have done with the same snapshot, side by side with this plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.model.plan import BY_HAND_STRATEGIES, Plan, Step
from evenkeel.planning.report.charts import share_bar
from evenkeel.planning.report.markup import (
    NOTHING,
    card,
    cell,
    count,
    figure,
    fold,
    is_figure,
    lead,
    section,
    sentence,
    table,
    text,
    words,
)
from evenkeel.planning.step_costs import cost_of

_MEASURES = (
    ("unloads", "Unloads", 0),
    ("moved_sessions", "Sessions cut", 0),
    ("client_seconds", "Client-seconds", 0),
    ("worst_after", "Worst after", 3),
)

# What keeps a pool outside of its band, by what its row says it is limited by.
_WHY_OUTSIDE = {
    "budget": "a budget, or the order of the steps, leaves moves out",
    "no-broker": "no broker may receive",
    "policies": "policies leave no other broker",
    "giant-bundle": "a bundle is too big for any broker",
    "excluded-namespaces": "its bundles are excluded from moves",
    "in-flight": "its bundles were changing hands",
    "anti-affinity": "anti-affinity groups would get more crowded",
    "topic-limit": "brokers would reach the topic limit",
    "bundle-sizes": "nothing that is left fits into the room that others have",
}


def render_comparison(plan: Plan, steps: Sequence[Step]) -> str:
    """This plan and each of Pulsar's strategies in a row of their own, with a bar for every figure."""
    others = [row for row in plan.counterfactual if isinstance(row, Mapping)]
    if not others:
        return ""
    rows = [_own_row(plan, steps, others), *others]
    most = {key: max((row[key] for row in rows if is_figure(row.get(key))), default=0) for key, _, _ in _MEASURES}
    heads = ("Strategy", *(name for _, name, _ in _MEASURES), "Moved again", "Rules broken", "It stopped because")
    body = table("This plan and Pulsar's own strategies", heads, [_cells(row, most, row is rows[0]) for row in rows])
    note = (
        "The same snapshot, handed to Pulsar's own balancers with the settings of this plan. Worst is the fullest "
        "broker over the lowest peak that its pool can reach: 1 is perfect."
    )
    return section("pulsar", "What Pulsar itself would have done", note, card(body) + "".join(map(_told, others)))


def _own_row(plan: Plan, steps: Sequence[Step], others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total = cost_of(steps)
    return {
        "strategy": "this plan",
        "unloads": total.moves,
        "repeat_unloads": 0,
        "moved_sessions": total.sessions,
        "client_seconds": total.client_seconds,
        "worst_after": plan.curve[-1].get("worst") if plan.curve else None,
        "illegal": 0,
        "stopped_because": _why_it_ends(plan, others),
    }


def _why_it_ends(plan: Plan, others: Sequence[Mapping[str, Any]]) -> str | None:
    """Why there is no further step, as far as the plan knows."""
    if plan.truncated:
        return "a deadline cut it short"
    if plan.strategy in BY_HAND_STRATEGIES:
        return "its steps were chosen, not searched for"
    if same := [row for row in others if row.get("strategy") == plan.strategy]:
        # The plan is one of Pulsar's strategies itself.
        return same[0].get("stopped_because")
    known = [pool for pool in plan.pools if "reaches_band" in pool]
    causes = Counter(str(pool.get("limited_by")) for pool in known if not pool["reaches_band"])
    if causes:
        why = "; ".join(f"{_WHY_OUTSIDE.get(cause, words(cause))} ({many:,})" for cause, many in causes.most_common())
        return f"{count(causes.total(), 'pool')} of {len(known):,} cannot be brought into the band: {why}"
    return _why_inside(plan) if known else None


def _why_inside(plan: Plan) -> str:
    after = plan.violations.get("after", {})
    stuck = int(after.get("misplaced", 0) + after.get("to_be_emptied", 0))
    but = f", and no place was found for {count(stuck, 'bundle')} that may not stay" if stuck else ""
    return f"every broker is inside its band{but}"


def _cells(row: Mapping[str, Any], most: Mapping[str, float], is_own: bool) -> list[str]:
    name = text(row.get("strategy", NOTHING))
    colour = "var(--accent)" if is_own else "var(--before)"
    cells = [lead(f"<b>{name}</b>" if is_own else name)]
    for key, _, digits in _MEASURES:
        value = row.get(key)
        bar = share_bar(_above_best(key, value), _above_best(key, most[key]), colour) if is_figure(value) else ""
        cells.append(cell(f'<span class="measure">{figure(value, digits)}{bar}</span>'))
    cells += [cell(figure(row.get(key))) for key in ("repeat_unloads", "illegal")]
    return [*cells, cell(f'<span class="why">{sentence(row.get("stopped_because") or NOTHING)}</span>')]


def _above_best(key: str, value: float) -> float:
    """What the bar of a figure shows: of the balance, only what lies above a perfect one."""
    return max(0.0, value - 1) if key == "worst_after" else value


def _told(row: Mapping[str, Any]) -> str:
    sentences = row.get("explanation") or []
    if not sentences:
        return ""
    items = "".join(f"<li>{sentence(said)}</li>" for said in sentences)
    cycles = f", {count(row['cycles'], 'cycle')}" if is_figure(row.get("cycles")) else ""
    return fold(f"What {text(row.get('strategy', NOTHING))} decided{cycles}", f'<ul class="told">{items}</ul>')
