"""How close the plan is to the best that any plan can do: gauges against the bounds, and balance against moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import Plan, Step
from evenkeel.planning.report.charts import CANVAS, Scale, dots, drawing, grid, level, plot, polyline, round_scale
from evenkeel.planning.report.markup import (
    NOTHING,
    card,
    figure,
    fold,
    is_figure,
    lead,
    number,
    percent,
    section,
    table,
    words,
)
from evenkeel.planning.step_costs import cost_of

_GAUGE_ROOM = 1.08


def render_certificate(plan: Plan, steps: Sequence[Step]) -> str:
    """The plan beside the lower bounds that hold for any plan; nothing where steps were chosen and not searched for."""
    if not plan.bounds:
        return ""
    total = cost_of(steps)
    gauges = [
        _gauge("Moves", total.moves, plan.bounds.get("moves"), plan.gap.get("moves"), figure),
        _gauge("Sessions moved", total.sessions, plan.bounds.get("sessions"), plan.gap.get("sessions"), figure),
        *(_peak_gauge(plan, resource) for resource in map(str, RESOURCES)),
    ]
    body = card(f'<div class="gauges">{"".join(gauges)}</div>')
    text = (
        "The mark is a bound that holds for any plan that reaches the band, whoever makes it: 1.00 × is the best there "
        "is. Below 1, this plan stops short of the band."
    )
    return section("certificate", "Against the best possible", text, body + _curve(plan))


def _peak_gauge(plan: Plan, resource: str) -> str:
    reached = plan.balance.get("after", {}).get(resource)
    least = plan.bounds.get("max_over_mean", {}).get(resource)
    if not reached or not is_figure(least):
        return ""
    bound = least * reached["mean"]
    ratio = plan.gap.get("max_over_mean", {}).get(resource)
    return _gauge(f"Peak of {words(resource)}", reached["max"], bound, ratio, percent)


def _gauge(name: str, reached: float, bound: Any, ratio: Any, show: Any) -> str:
    """A bar for what the plan takes, a mark for what any plan takes, and their ratio."""
    if not is_figure(bound):
        return ""
    scale = Scale(0, max(reached, bound) * _GAUGE_ROOM or 1)
    x = scale.place(bound)
    end = scale.place(reached)
    shapes = (
        f'<rect class="after" y="250" width="{min(x, end):.1f}" height="500"/>'
        f'<rect class="before" x="{x:.1f}" y="250" width="{max(0.0, end - x):.1f}" height="500"/>'
        f'<path class="band" d="M{x:.1f} 0V{CANVAS:.0f}"/>'
    )
    times = f"{ratio:.2f} ×" if is_figure(ratio) else NOTHING
    told = f"this plan {show(reached)}, bound {show(bound)}, ratio {times}"
    return (
        f'<div class="gauge"><span>{name}</span>{drawing(shapes, name, told, "track")}'
        f'<b>{times}</b><small class="soft">{show(reached)}, at least {show(bound)}</small></div>'
    )


def _curve(plan: Plan) -> str:
    """Balance against moves, so that whoever approves sees what a shorter plan would be worth."""
    points = [point for point in plan.curve if is_figure(point.get("moves")) and is_figure(point.get("worst"))]
    if len(points) < 2:
        return ""
    tolerance = plan.settings.get("tolerance")
    band_end = 1 + tolerance if is_figure(tolerance) else None
    picture = _plot(points, band_end)
    keys = [key for key in ("sessions", "client_seconds", "least_moves") if any(key in point for point in points)]
    rows = [
        [
            lead(figure(point["moves"])),
            number(f"{point['worst']:.3f}"),
            *(number(figure(point.get(key), 1 if key == "client_seconds" else 0)) for key in keys),
        ]
        for point in points
    ]
    names = {"sessions": "Sessions", "client_seconds": "Client-seconds", "least_moves": "Fewest moves for it"}
    figures = table("The curve in figures", ("Moves", "Worst", *(names[key] for key in keys)), rows)
    return card(
        _CURVE_LEGEND + picture + fold("The curve as a table", figures),
        "Balance against moves",
        "the fullest broker over the lowest peak that its pool can reach; 1 is perfect",
    )


_CURVE_LEGEND = (
    '<p class="legend"><span><i class="after"></i>this plan after so many moves</span>'
    '<span><i class="wall"></i>no plan can be here</span><span><i class="tick"></i>end of the band</span></p>'
)


def _plot(points: Sequence[Mapping[str, Any]], band_end: float | None) -> str:
    highest = max(point["worst"] for point in points)
    x_scale = Scale(0, max(1, max(point["moves"] for point in points)))
    y_scale = round_scale(max(highest, band_end or 1), low=1.0)
    places = [(x_scale.place(point["moves"]), y_scale.place(point["worst"])) for point in points]
    bounded = [point for point in points if is_figure(point.get("least_moves"))]
    # Left of the bound no plan can be: the area says so better than a line.
    wall = [(x_scale.place(point["least_moves"]), y_scale.place(point["worst"])) for point in bounded]
    impossible = polyline([(0.0, wall[0][1]), *wall, (0.0, wall[-1][1])], "impossible") if wall else ""
    shapes = grid(y_scale) + impossible + polyline(places, "after-line")
    if band_end is not None:
        shapes += level(y_scale.place(band_end), "band")
    shapes += dots(
        (
            (x, y, f"{figure(point['moves'])} moves: worst {point['worst']:.3f}")
            for (x, y), point in zip(places, points, strict=True)
        ),
        "dot",
    )
    ticks = [mark for mark in x_scale.ticks() if mark == int(mark)]
    description = (
        f"From {points[0]['worst']:.3f} with {figure(points[0]['moves'])} moves "
        f"to {points[-1]['worst']:.3f} with {figure(points[-1]['moves'])} moves."
    )
    return plot(
        shapes,
        [(x_scale.percent(mark), figure(mark)) for mark in ticks],
        [(y_scale.percent(mark), f"{mark:g}") for mark in y_scale.ticks()],
        "Balance against moves",
        description,
    )
