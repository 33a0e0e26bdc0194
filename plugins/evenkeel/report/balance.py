"""The load of each broker before and after: bars for a few brokers, a skyline and heat strips for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenkeel.model.load import RESOURCES, Resource
from evenkeel.model.plan import BrokerBalance
from evenkeel.model.plan_summary import RESOURCE_NAMES
from evenkeel.report.markup import (
    CANVAS,
    Scale,
    card,
    cell,
    code,
    drawing,
    fold,
    grid,
    lead,
    level,
    number,
    plot,
    round_scale,
    section,
    shown,
    stairs,
    table,
    text,
)

# Up to this many brokers get a bar each.
MOST_BARS = 40
SHOWN_BROKERS = 1_000
# A warmer colour begins at each of these loads, in percent of the end of the broker's band.
_WARMER_FROM_PERCENT = (50, 75, 90)
_TOO_HOT = 4


def render_balance(brokers: Sequence[BrokerBalance], overload_percent: float | None) -> str:
    """Each broker's utilisation before and after, by resource, with the end of the band marked."""
    by_resource = {resource: [row for row in brokers if row.resource == resource] for resource in RESOURCES}
    known = {resource: [row for row in rows if row.limit > 0] for resource, rows in by_resource.items()}
    known = {resource: rows for resource, rows in known.items() if rows}
    if not known:
        return section("balance", "Balance", "No broker has a known limit, so there is nothing to compare.", "")
    scale = round_scale(max(_peak(rows, "used_before", "used_after") for rows in known.values()))
    if len({row.broker_id for row in brokers}) <= MOST_BARS:
        body = card(_bars(known, scale, overload_percent))
    else:
        cards = [_crowd_card(name, rows, scale, overload_percent) for name, rows in known.items()]
        body = "".join(cards) + _all_brokers(brokers)
    unknown = sum(len(rows) for rows in by_resource.values()) - sum(map(len, known.values()))
    note = f"Load in percent of the limit; the scale ends at {scale.high:g} %."
    if unknown:
        note += f" {unknown:,} limits are unknown and not shown."
    return section("balance", "Balance", note, _LEGEND + body)


_LEGEND = (
    '<p class="legend"><span><i class="before"></i>before</span><span><i class="after"></i>after</span>'
    '<span><i class="outside"></i>outside the band</span><span><i class="tick"></i>end of the band</span>'
    '<span><i class="dash"></i>overload line</span></p>'
)


def _bars(known: Mapping[Resource, Sequence[BrokerBalance]], scale: Scale, overload_percent: float | None) -> str:
    """One row per broker, one pair of bars per resource; the busiest broker comes first."""
    by_key = {(row.broker_id, name): row for name, rows in known.items() for row in rows}
    fullest: dict[str, float] = {}
    for (broker, _), row in by_key.items():
        fullest[broker] = max(fullest.get(broker, 0.0), _share(row, max(row.used_before, row.used_after)))
    rows = [
        [
            lead(code(broker)),
            *(cell(_bar(by_key.get((broker, name)), scale, overload_percent)) for name in known),
        ]
        for broker in sorted(fullest, key=lambda broker: (-fullest[broker], broker))
    ]
    heads = [_heading(name) for name in known]
    return table("Load in percent of the limit, before and after", ("Broker", *heads), rows)


def _crowd_card(name: Resource, rows: Sequence[BrokerBalance], scale: Scale, overload_percent: float | None) -> str:
    """Many brokers: their overall shape, and the outliers."""
    body = _skyline(rows, scale, overload_percent) + _strips(rows)
    note = f"{len(rows):,} brokers; the strips are sorted by name, darker is busier"
    return card(body, _heading(name), note)


def _bar(row: BrokerBalance | None, scale: Scale, overload_percent: float | None) -> str:
    if row is None:
        return '<span class="soft">limit unknown</span>'
    before, after = _share(row, row.used_before), _share(row, row.used_after)
    shapes = (
        f'<rect class="before" y="120" width="{scale.place(before):.1f}" height="280"/>'
        f'<rect class="{"outside" if _is_outside(row) else "after"}" y="460" width="{scale.place(after):.1f}" '
        f'height="420"/>'
    )
    if row.band_limit > 0:
        shapes += _mark(scale.place(_share(row, row.band_limit)), "band")
    if overload_percent is not None and overload_percent < scale.high:
        shapes += _mark(scale.place(overload_percent), "overload")
    description = f"{before:.1f} % before, {after:.1f} % after"
    title = f"{row.broker_id}, {RESOURCE_NAMES[Resource(row.resource)]}"
    picture = drawing(shapes, title, description, "track")
    return f'<span class="bar">{picture}<span>{before:.1f} → {after:.1f}</span></span>'


def _mark(x: float, css_class: str) -> str:
    return f'<path class="{css_class}" d="M{x:.1f} 0V{CANVAS:.0f}"/>'


def _skyline(rows: Sequence[BrokerBalance], scale: Scale, overload_percent: float | None) -> str:
    """All brokers side by side, the busiest first: load before, load after, and the end of the band."""
    ordered = sorted(rows, key=lambda row: (-_share(row, row.used_before), row.broker_id))
    before = [scale.place(_share(row, row.used_before)) for row in ordered]
    after = [scale.place(_share(row, row.used_after)) for row in ordered]
    ends = [scale.place(_share(row, row.band_limit)) if row.band_limit > 0 else CANVAS for row in ordered]
    shapes = (
        grid(scale)
        + stairs(before, "before", is_area=True)
        + stairs(after, "after-line", is_area=False)
        + stairs(ends, "band", is_area=False)
    )
    if overload_percent is not None and overload_percent < scale.high:
        shapes += level(scale.place(overload_percent), "overload")
    outside = sum(map(_is_outside, rows))
    description = (
        f"{len(rows)} brokers, the busiest before the plan first. Highest before: {_peak(rows, 'used_before'):.1f} %, "
        f"after: {_peak(rows, 'used_after'):.1f} %. Outside the band after the plan: {outside}."
    )
    x_labels = [("0.00%", "busiest before"), ("100.00%", "least busy before")]
    y_labels = [(scale.percent(mark), f"{mark:g} %") for mark in scale.ticks()]
    return plot(shapes, x_labels, y_labels, "Load of all brokers before and after", description)


def _strips(rows: Sequence[BrokerBalance]) -> str:
    """Two strips with one cell per broker, sorted by name; warmer is nearer to the end of the band."""
    ordered = sorted(rows, key=lambda row: row.broker_id)
    strips = []
    for when, field in (("before", "used_before"), ("after", "used_after")):
        width = CANVAS / len(ordered)
        used = [getattr(row, field) for row in ordered]
        cells = "".join(
            f'<rect class="heat{_heat(row, load)}" x="{place * width:.1f}" width="{width:.2f}" height="{CANVAS:.0f}">'
            f"<title>{text(row.broker_id)}: {_share(row, load):.1f} %</title></rect>"
            for place, (row, load) in enumerate(zip(ordered, used, strict=True))
        )
        hot = sum(_heat(row, load) == _TOO_HOT for row, load in zip(ordered, used, strict=True))
        picture = drawing(cells, f"Brokers by name, {when}", f"{hot} of {len(ordered)} outside the band", "strip")
        strips.append(f'<div class="strip-row"><span>{when}</span>{picture}<span>{hot:,} outside</span></div>')
    return f'<div class="strips">{"".join(strips)}</div>'


def _heat(row: BrokerBalance, used: int) -> int:
    if row.band_limit <= 0:
        return 0
    if used > row.band_limit:
        return _TOO_HOT
    return sum(100 * used >= mark * row.band_limit for mark in _WARMER_FROM_PERCENT)


def _all_brokers(brokers: Sequence[BrokerBalance]) -> str:
    """The same figures as a table, to look up one broker."""
    names = sorted({(row.broker_id, row.pool) for row in brokers})
    by_key = {(row.broker_id, row.resource): row for row in brokers}
    resources = list(RESOURCES)
    rows = [
        [lead(code(name)), *(number(_figures(by_key.get((name, resource)))) for resource in resources)]
        for name, _ in names[:SHOWN_BROKERS]
    ]
    heads = ("Broker", *(f"{_heading(resource)}, %" for resource in resources))
    caption = "Load in percent of the limit, before and after, and the end of the band"
    note = f'<p class="soft">{shown(len(names), SHOWN_BROKERS, "brokers.parquet")}</p>'
    return fold("All brokers as a table", note + table(caption, heads, rows))


def _figures(row: BrokerBalance | None) -> str:
    if row is None or row.limit <= 0:
        return "limit unknown"
    end = f' <span class="soft">of {_share(row, row.band_limit):.1f}</span>' if row.band_limit > 0 else ""
    return f"{_share(row, row.used_before):.1f} → {_share(row, row.used_after):.1f}{end}"


def _heading(resource: Resource) -> str:
    name = RESOURCE_NAMES[resource]
    return name[0].upper() + name[1:]


def _is_outside(row: BrokerBalance) -> bool:
    return 0 < row.band_limit < row.used_after


def _share(row: BrokerBalance, used: int) -> float:
    return 100 * used / row.limit


def _peak(rows: Sequence[BrokerBalance], *fields: str) -> float:
    return max(_share(row, getattr(row, field)) for row in rows for field in fields)
