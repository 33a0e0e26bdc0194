"""A plan's balance before and after as an SVG, small enough to be read in an approval.

The picture has a ground of its own, because an approval may be shown on white or on black and does not say which.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from evenkeel.adapters.lake.plans import StoredPlan
from evenkeel.model.load import RESOURCES, Resource
from evenkeel.model.plan import BrokerBalance
from evenkeel.model.plan_summary import RESOURCE_NAMES
from evenkeel.model.visible_text import make_visible

MOST_BROKERS = 12
LONGEST_NAME = 24
WIDTH, MARGIN, NAME_WIDTH, GAP = 880, 16, 170, 22
ROW_HEIGHT, HEAD_HEIGHT, FOOT_HEIGHT = 24, 58, 26
INK, SOFT, GROUND, LINE = "#1f2a37", "#56616f", "#ffffff", "#d5dbe3"
BEFORE, AFTER, OUTSIDE = "#b3bdc9", "#1f6feb", "#c2410c"


def draw_balance(stored: StoredPlan) -> str:
    """Bars for the brokers that the plan changes most, one column for each resource whose limits are known."""
    known = {resource: _rows_of(stored, resource) for resource in RESOURCES}
    known = {resource: rows for resource, rows in known.items() if rows}
    brokers = _choose_brokers([row for rows in known.values() for row in rows])
    height = HEAD_HEIGHT + ROW_HEIGHT * max(1, len(brokers)) + FOOT_HEIGHT
    title = f"Load of the brokers of cluster {make_visible(stored.plan.cluster)} before and after the plan"
    shapes = [
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" fill="{GROUND}" stroke="{LINE}"/>',
        *_legend(),
    ]
    if not known:
        shapes.append(_text(MARGIN, HEAD_HEIGHT + 16, "No broker has a known limit, so there is nothing to compare."))
    column = (WIDTH - 2 * MARGIN - NAME_WIDTH) / max(1, len(known))
    for place, (resource, rows) in enumerate(known.items()):
        left = MARGIN + NAME_WIDTH + place * column
        shapes += _column(resource, {row.broker_id: row for row in rows}, brokers, left, column - GAP)
    shapes += [
        _text(MARGIN, HEAD_HEIGHT + ROW_HEIGHT * place + 15, _shorten(name), INK) for place, name in enumerate(brokers)
    ]
    left_out = len({row.broker_id for row in stored.brokers}) - len(brokers)
    note = "Percent of each broker's limit." + (
        f" {left_out:,} brokers that change less are left out." * (left_out > 0)
    )
    shapes.append(_text(MARGIN, height - 10, note))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="12"><title>{escape(title)}</title>'
        f"{''.join(shapes)}</svg>"
    )


def _rows_of(stored: StoredPlan, resource: Resource) -> list[BrokerBalance]:
    return [row for row in stored.brokers if row.resource == resource and row.limit > 0]


def _choose_brokers(rows: Sequence[BrokerBalance]) -> list[str]:
    """The brokers whose load changes most, in the order of their names."""
    change: dict[str, float] = {}
    for row in rows:
        change[row.broker_id] = max(change.get(row.broker_id, 0.0), abs(row.used_after - row.used_before) / row.limit)
    chosen = sorted(change, key=lambda broker: (-change[broker], broker))[:MOST_BROKERS]
    return sorted(chosen)


def _column(
    resource: Resource, rows: dict[str, BrokerBalance], brokers: Sequence[str], left: float, width: float
) -> list[str]:
    bar_width = width - 92
    peak = max((max(row.used_before, row.used_after, row.band_limit) / row.limit for row in rows.values()), default=1.0)
    scale = bar_width / max(peak, 0.01)
    name = RESOURCE_NAMES[resource]
    shapes = [_text(left, HEAD_HEIGHT - 10, name[0].upper() + name[1:], INK, weight="600")]
    for place, broker in enumerate(brokers):
        row = rows.get(broker)
        top = HEAD_HEIGHT + ROW_HEIGHT * place
        if row is None:
            shapes.append(_text(left, top + 15, "limit unknown"))
            continue
        before, after = row.used_before / row.limit, row.used_after / row.limit
        colour = OUTSIDE if 0 < row.band_limit < row.used_after else AFTER
        shapes.append(_bar(left, top + 3, before * scale, 6, BEFORE))
        shapes.append(_bar(left, top + 10, after * scale, 8, colour))
        if row.band_limit > 0:
            x = left + row.band_limit / row.limit * scale
            shapes.append(f'<path d="M{x:.1f} {top + 1}v19" stroke="{INK}" stroke-width="1"/>')
        figures = f"{100 * before:.1f} → {100 * after:.1f}"
        shapes.append(_text(left + width, top + 15, figures, INK, anchor="end"))
    return shapes


def _legend() -> list[str]:
    shapes, x = [], float(MARGIN)
    for colour, words in ((BEFORE, "before"), (AFTER, "after"), (OUTSIDE, "after, outside the band")):
        shapes += [_bar(x, 13, 14, 8, colour), _text(x + 20, 21, words)]
        x += 34 + 7.0 * len(words)
    mark = f'<path d="M{x + 4:.1f} 9v15" stroke="{INK}" stroke-width="1"/>'
    return [*shapes, mark, _text(x + 12, 21, "end of the band")]


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1.0):.1f}" height="{height}" rx="1.5" fill="{colour}"/>'


def _text(x: float, y: float, words: str, colour: str = SOFT, anchor: str = "start", weight: str = "400") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(words)}</text>"
    )


def _shorten(name: str) -> str:
    shown = make_visible(name)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"
