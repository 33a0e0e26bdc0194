"""The pictures of a plan's report: bars of each broker's load before and after, drawn as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import BrokerBalance

SHOWN_BROKERS = 40
# A bar is drawn on a canvas of this width and stretched to the page.
_WIDTH = 1000
# Where a scale may end, in percent of the limit; the first that holds the highest load is taken.
_SCALE_ENDS = (5, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300, 500, 1000)


def render_balance(brokers: Sequence[BrokerBalance]) -> str:
    """Each broker's share of its limit before and after, resource by resource, with the end of the band marked."""
    cards = [_resource_card(resource, brokers) for resource in map(str, RESOURCES)]
    legend = (
        '<p class="legend"><span><i style="background:var(--before)"></i>before</span>'
        '<span><i style="background:var(--accent)"></i>after</span>'
        '<span><i style="background:var(--bad)"></i>after, outside the band</span>'
        '<span><i class="tick" style="background:var(--band)"></i>end of the band</span></p>'
    )
    return f"<section><h2>Balance</h2>{legend}{''.join(cards)}</section>"


def render_share(part: int, whole: int) -> str:
    """A small bar for a part of a whole."""
    width = _x(part, whole, 100.0) if whole else 0.0
    return (
        f'<svg viewBox="0 0 {_WIDTH} 10" width="120" height="10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="10" rx="2" fill="var(--accent)"/></svg>'
    )


def _resource_card(resource: str, brokers: Sequence[BrokerBalance]) -> str:
    rows = [row for row in brokers if row.resource == resource and row.limit > 0]
    unknown = sum(row.resource == resource and row.limit <= 0 for row in brokers)
    name = resource.replace("_", " ")
    if not rows:
        return ""
    rows.sort(key=lambda row: (-max(row.used_before / row.limit, row.used_after / row.limit), row.broker_id))
    peak = max(max(row.used_before, row.used_after) / row.limit for row in rows)
    end = next((mark for mark in _SCALE_ENDS if mark >= 100 * peak), _SCALE_ENDS[-1])
    notes = [f"scale to {end} % of the limit"]
    if len(rows) > SHOWN_BROKERS:
        notes.append(f"the {SHOWN_BROKERS} fullest of {len(rows):,} brokers")
    if unknown:
        notes.append(f"{unknown:,} without a known limit")
    bars = "".join(_broker_bar(row, end) for row in rows[:SHOWN_BROKERS])
    head = f'<header><h3>{escape(name.capitalize())}</h3><span class="soft">{", ".join(notes)}</span></header>'
    return f'<div class="card">{head}{bars}</div>'


def _broker_bar(row: BrokerBalance, end_percent: float) -> str:
    has_band = row.band_limit > 0
    is_outside = has_band and row.used_after > row.band_limit
    before, after = (f"{100 * used / row.limit:.1f}" for used in (row.used_before, row.used_after))
    colour = "var(--bad)" if is_outside else "var(--accent)"
    mark = ""
    if has_band:
        x = _x(row.band_limit, row.limit, end_percent)
        mark = (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="20" stroke="var(--band)" stroke-width="2" '
            'vector-effect="non-scaling-stroke"/>'
        )
    label = escape(f"{row.broker_id}: {before} % before, {after} % after", quote=True)
    return (
        f'<div class="bar"><span class="mono">{escape(row.broker_id)}</span>'
        f'<svg viewBox="0 0 {_WIDTH} 20" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'<rect y="2" width="{_x(row.used_before, row.limit, end_percent):.1f}" height="6" fill="var(--before)"/>'
        f'<rect y="9" width="{_x(row.used_after, row.limit, end_percent):.1f}" height="9" fill="{colour}"/>{mark}</svg>'
        f"<span>{before} → {after} %</span></div>"
    )


def _x(part: int, whole: int, end_percent: float) -> float:
    return min(_WIDTH, _WIDTH * 100 * part / whole / end_percent)
