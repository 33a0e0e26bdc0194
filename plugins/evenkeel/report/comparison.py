"""How the plan compares: with the best that any plan can do, and with what Pulsar's own strategies would have done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenkeel.model.figures import CurvePoint, StrategyReplay
from evenkeel.model.load import RESOURCES, Resource
from evenkeel.model.plan import BY_HAND_STRATEGIES, Plan
from evenkeel.model.plan_summary import RESOURCE_NAMES, count, describe_outside_pools
from evenkeel.report.markup import (
    CANVAS,
    NOTHING,
    Scale,
    card,
    cell,
    dots,
    drawing,
    figure,
    fold,
    grid,
    lead,
    level,
    number,
    percent,
    plot,
    polyline,
    round_scale,
    section,
    sentence,
    share_bar,
    table,
    text,
)

# A gauge is a little longer than the larger of its two values.
_GAUGE_LENGTH = 1.08


def render_certificate(plan: Plan) -> str:
    """The plan against the lower bounds for any plan; nothing where a person chose the steps."""
    if plan.bounds is None or plan.gap is None:
        return ""
    gauges = [
        _gauge("Moves", plan.step_counts.moves, plan.bounds.moves, plan.gap.moves, figure),
        _gauge("Sessions moved", plan.disruption.sessions, plan.bounds.sessions, plan.gap.sessions, figure),
        *(_peak_gauge(plan, resource) for resource in RESOURCES),
    ]
    body = card(f'<div class="gauges">{"".join(gauges)}</div>')
    note = (
        "The mark is a lower bound for any plan that reaches the band: 1.00 × is the best possible. "
        "Below 1, this plan stops short of the band."
    )
    return section("certificate", "Against the best possible", note, body + _curve(plan))


def _peak_gauge(plan: Plan, resource: Resource) -> str:
    reached = plan.balance.after.get(resource)
    least = plan.bounds.max_over_mean.get(resource) if plan.bounds else None
    if reached is None or least is None:
        return ""
    ratio = plan.gap.max_over_mean.get(resource) if plan.gap else None
    return _gauge(f"Peak {RESOURCE_NAMES[resource]}", reached.max, least * reached.mean, ratio, percent)


def _gauge(name: str, reached: float, bound: float, ratio: float | None, show: Callable[[float], str]) -> str:
    """A bar for what the plan takes, a mark for what any plan takes, and their ratio."""
    scale = Scale(0, max(reached, bound) * _GAUGE_LENGTH or 1)
    x, end = scale.place(bound), scale.place(reached)
    shapes = (
        f'<rect class="after" y="250" width="{min(x, end):.1f}" height="500"/>'
        f'<rect class="before" x="{x:.1f}" y="250" width="{max(0.0, end - x):.1f}" height="500"/>'
        f'<path class="band" d="M{x:.1f} 0V{CANVAS:.0f}"/>'
    )
    times = NOTHING if ratio is None else f"{ratio:.2f} ×"
    description = f"this plan {show(reached)}, bound {show(bound)}, ratio {times}"
    return (
        f'<div class="gauge"><span>{name}</span>{drawing(shapes, name, description, "track")}'
        f'<b>{times}</b><small class="soft">{show(reached)}, at least {show(bound)}</small></div>'
    )


def _curve(plan: Plan) -> str:
    """Balance against moves: what a shorter plan would achieve."""
    points = plan.curve
    if len(points) < 2:
        return ""
    tolerance = plan.settings.get("tolerance")
    band_end = 1 + tolerance if isinstance(tolerance, int | float) else None
    rows = [
        [
            lead(figure(point.moves)),
            number(f"{point.worst:.3f}"),
            number(figure(point.sessions)),
            number(figure(point.client_seconds)),
            number(figure(point.least_moves)),
        ]
        for point in points
    ]
    heads = ("Moves", "Worst", "Sessions", "Client-seconds", "Fewest moves for it")
    return card(
        _CURVE_LEGEND + _plot(points, band_end) + fold("Show as a table", table("Balance against moves", heads, rows)),
        "Balance against moves",
        "busiest broker over the lowest peak that its pool can reach; 1 is perfect",
    )


_CURVE_LEGEND = (
    '<p class="legend"><span><i class="after"></i>this plan after so many moves</span>'
    '<span><i class="wall"></i>impossible for any plan</span><span><i class="tick"></i>end of the band</span></p>'
)


def _plot(points: Sequence[CurvePoint], band_end: float | None) -> str:
    x_scale = Scale(0, max(1, max(point.moves for point in points)))
    y_scale = round_scale(max(max(point.worst for point in points), band_end or 1), low=1.0)
    places = [(x_scale.place(point.moves), y_scale.place(point.worst)) for point in points]
    # No plan can be left of the bound; an area shows that better than a line.
    wall = [(x_scale.place(point.least_moves), y_scale.place(point.worst)) for point in points]
    impossible = polyline([(0.0, wall[0][1]), *wall, (0.0, wall[-1][1])], "impossible")
    shapes = grid(y_scale) + impossible + polyline(places, "after-line")
    if band_end is not None:
        shapes += level(y_scale.place(band_end), "band")
    shapes += dots(
        (
            (x, y, f"{count(point.moves, 'move')}: worst {point.worst:.3f}")
            for (x, y), point in zip(places, points, strict=True)
        ),
        "dot",
    )
    first, last = points[0], points[-1]
    return plot(
        shapes,
        [(x_scale.percent(mark), figure(mark)) for mark in x_scale.ticks() if mark == int(mark)],
        [(y_scale.percent(mark), f"{mark:g}") for mark in y_scale.ticks()],
        "Balance against moves",
        f"From {first.worst:.3f} with {count(first.moves, 'move')} to {last.worst:.3f} with "
        f"{count(last.moves, 'move')}.",
    )


_MEASURES = (
    ("unloads", "Unloads", 0),
    ("moved_sessions", "Sessions cut", 0),
    ("client_seconds", "Client-seconds", 0),
    ("worst_after", "Worst after", 3),
)


def render_pulsar(plan: Plan) -> str:
    """This plan and each of Pulsar's strategies in a row of their own, with a bar for every figure."""
    if not plan.counterfactual:
        return ""
    rows = [_own_row(plan), *plan.counterfactual]
    most = {key: max((getattr(row, key) or 0 for row in rows), default=0) for key, _, _ in _MEASURES}
    heads = ("Strategy", *(name for _, name, _ in _MEASURES), "Moved again", "Rules broken", "Why it stopped")
    body = table("This plan and Pulsar's own strategies", heads, [_cells(row, most, row is rows[0]) for row in rows])
    note = (
        "The same snapshot, given to Pulsar's own balancers with the settings of this plan. Worst is the busiest "
        "broker over the lowest peak that its pool can reach: 1 is perfect."
    )
    explained = "".join(map(_explanation, plan.counterfactual))
    return section("pulsar", "What Pulsar itself would have done", note, card(body) + explained)


def _own_row(plan: Plan) -> StrategyReplay:
    return StrategyReplay(
        strategy="this plan",
        stopped_because=_why_it_ends(plan),
        unloads=plan.step_counts.moves,
        repeat_unloads=0,
        worst_after=plan.curve[-1].worst if plan.curve else None,
        moved_sessions=plan.disruption.sessions,
        client_seconds=plan.disruption.client_seconds,
        illegal=0,
    )


def _why_it_ends(plan: Plan) -> str:
    """Why the plan has no further steps."""
    if plan.truncated:
        return "the search hit its deadline"
    if plan.strategy in BY_HAND_STRATEGIES:
        return "a person chose its steps"
    if same := [row for row in plan.counterfactual if row.strategy == plan.strategy]:
        # The plan is one of Pulsar's strategies itself.
        return same[0].stopped_because
    if outside := describe_outside_pools(plan.pools):
        return outside
    stuck = plan.violations.after.bundles_to_move if plan.violations else 0
    but = f", but {count(stuck, 'bundle')} that must leave found no other broker" if stuck else ""
    return f"every broker is inside its band{but}" if plan.pools else ""


def _cells(row: StrategyReplay, most: dict[str, float], is_own: bool) -> list[str]:
    name = text(row.strategy)
    colour = "var(--accent)" if is_own else "var(--before)"
    cells = [lead(f"<b>{name}</b>" if is_own else name)]
    for key, _, digits in _MEASURES:
        value = getattr(row, key)
        bar = "" if value is None else share_bar(_above_best(key, value), _above_best(key, most[key]), colour)
        cells.append(cell(f'<span class="measure">{figure(value, digits)}{bar}</span>'))
    cells += [cell(figure(row.repeat_unloads)), cell(figure(row.illegal))]
    return [*cells, cell(f'<span class="why">{sentence(row.stopped_because or NOTHING)}</span>')]


def _above_best(key: str, value: float) -> float:
    """The length of a figure's bar; for the balance, the part above a perfect one."""
    return max(0.0, value - 1) if key == "worst_after" else value


def _explanation(row: StrategyReplay) -> str:
    if not row.explanation:
        return ""
    items = "".join(f"<li>{sentence(said)}</li>" for said in row.explanation)
    cycles = "" if row.cycles is None else f", {count(row.cycles, 'cycle')}"
    return fold(f"What {text(row.strategy)} decided{cycles}", f'<ul class="told">{items}</ul>')
