"""The building blocks of the report: HTML for sections, tables and badges, and inline SVG for bars and curves.

Every text from outside is escaped here. Shapes are drawn on a canvas of 1000 × 1000 and stretched with the page.
Letters would be stretched too, so all labels are HTML beside the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from evenkeel.model.visible_text import make_visible

ARROW = '<span class="arrow" aria-label="to">→</span>'
NOTHING = "–"
_BYTES_PER_MEGABYTE = 1_000_000

CANVAS = 1000.0
# How far apart round numbers of a scale may be, times a power of ten.
_ROUND_STEPS = (1, 2, 2.5, 5, 10)
# A label at an edge of a plot stands inside of it.
_EDGES = {"0.00%": "first", "100.00%": "last"}


def text(value: object) -> str:
    """Anything from outside as text that a browser does not read as markup, with nothing invisible in it."""
    return escape(make_visible(str(value)), quote=True)


def sentence(value: object) -> str:
    """A sentence from outside; no line break separates a figure from its percent sign."""
    return text(value).replace(" %", "\N{NO-BREAK SPACE}%")


def code(value: object) -> str:
    """A name from the cluster: bundle, broker, digest."""
    return f"<code>{text(value)}</code>"


def badge(kind: str, label: str) -> str:
    """A framed word; `kind` is good, warn, bad or soft."""
    return f'<span class="badge {kind}">{text(label)}</span>'


def section(anchor: str, title: str, note: str, body: str) -> str:
    """A part of the page with a heading that can be linked to; note and body are HTML."""
    paragraph = f'<p class="soft">{note}</p>' if note else ""
    return f'<section id="{anchor}"><h2>{text(title)}</h2>{paragraph}{body}</section>'


def card(body: str, title: str = "", note: str = "") -> str:
    """A framed part of a section; the body is HTML, title and note are texts."""
    head = f'<header><h3>{text(title)}</h3><span class="soft">{text(note)}</span></header>' if title else ""
    return f'<div class="card">{head}{body}</div>'


def fold(summary: str, body: str, is_open: bool = False) -> str:
    """A part that stays folded until the reader opens it; both are HTML."""
    return f"<details{' open' if is_open else ''}><summary>{summary}</summary>{body}</details>"


def facts(values: Mapping[str, str]) -> str:
    """Names, which are texts, and what they stand for, which is HTML."""
    rows = "".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in values.items())
    return f'<dl class="facts">{rows}</dl>'


def lead(html: str) -> str:
    """The first cell of a row, which names it."""
    return f'<th scope="row" class="lead">{html}</th>'


def cell(html: str) -> str:
    return f"<td>{html}</td>"


def number(html: str) -> str:
    """A right-aligned cell."""
    return f'<td class="number">{html}</td>'


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells; on a narrow screen every row becomes a block whose cells show their column names."""
    cells = [list(row) for row in rows]
    is_number = [bool(cells) and 'class="number"' in cells[0][place] for place in range(len(heads))]
    head = "".join(
        f'<th scope="col"{" class=number" if right else ""}>{text(name)}</th>'
        for name, right in zip(heads, is_number, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_labelled(html, name) for html, name in zip(row, heads, strict=True))}</tr>" for row in cells
    )
    return (
        f'<div class="scroll"><table class="stack"><caption>{text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _labelled(html: str, name: str) -> str:
    """Give a cell the name of its column for narrow screens."""
    return html.replace("<td", f'<td data-label="{text(name)}"', 1)


def shown(total: int, most: int, file: str) -> str:
    """How many rows there are, and where to find those that are not shown."""
    return f"The first {most:,} of {total:,}; all are in {text(file)}." if total > most else f"{total:,} in all."


def words(name: str) -> str:
    """An identifier as people would write it."""
    return name.replace("_", " ")


def percent(share: float | None) -> str:
    """A share as percent with one digit after the point, or a dash."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def figure(value: float | None, digits: int = 0) -> str:
    """A number with its thousands marked, or a dash."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def megabytes(bytes_per_s: int) -> str:
    return f"{bytes_per_s / _BYTES_PER_MEGABYTE:,.1f}"


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` onto the canvas; what lies outside is drawn at the edge."""

    low: float
    high: float

    def place(self, value: float) -> float:
        if self.high <= self.low:
            return 0.0
        return CANVAS * min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def percent(self, value: float) -> str:
        """The place as a CSS length."""
        return f"{self.place(value) / CANVAS:.2%}"

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers on the scale, at most this many steps apart."""
        if self.high <= self.low:
            return [self.low]
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(size * power for size in _ROUND_STEPS if size * power >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(mark * step, 10) for mark in range(first, last + 1)]


def round_scale(highest: float, low: float = 0.0) -> Scale:
    """A scale from `low` that ends at a round number not below the highest value."""
    if highest <= low:
        return Scale(low, low + 1.0)
    ticks = Scale(low, highest).ticks()
    step = ticks[1] - ticks[0] if len(ticks) > 1 else highest - low
    return Scale(low, low + step * math.ceil((highest - low) / step - 1e-9))


def share_bar(part: float, whole: float, colour: str = "var(--accent)") -> str:
    """A small bar for a part of a whole; the figure stands beside it, so that it needs no words."""
    width = Scale(0, whole).place(part)
    return (
        f'<svg class="share" viewBox="0 0 {CANVAS:.0f} 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="10" fill="{colour}"/></svg>'
    )


def drawing(shapes: str, title: str, description: str, css_class: str = "canvas") -> str:
    """An SVG picture with a title and a description for those who cannot see it."""
    return (
        f'<svg class="{css_class}" viewBox="0 0 {CANVAS:.0f} {CANVAS:.0f}" preserveAspectRatio="none" role="img">'
        f"<title>{text(title)}</title><desc>{text(description)}</desc>{shapes}</svg>"
    )


def plot(
    shapes: str,
    x_labels: Iterable[tuple[str, str]],
    y_labels: Iterable[tuple[str, str]],
    title: str,
    description: str,
) -> str:
    """A picture with axes; labels are pairs of a place, which is a CSS length, and a text."""
    horizontal = "".join(
        f'<span class="x {_EDGES.get(place, "")}" style="left:{place}">{text(label)}</span>'
        for place, label in x_labels
    )
    vertical = "".join(f'<span class="y" style="bottom:{place}">{text(label)}</span>' for place, label in y_labels)
    return f'<div class="plot">{drawing(shapes, title, description)}{horizontal}{vertical}</div>'


def level(bottom: float, css_class: str) -> str:
    """A line across the picture, at this height of the canvas."""
    y = CANVAS - bottom
    return f'<path class="{css_class}" d="M0 {y:.1f}H{CANVAS:.0f}"/>'


def grid(scale: Scale) -> str:
    """Faint lines at the ticks of a vertical scale."""
    return "".join(level(scale.place(mark), "grid") for mark in scale.ticks())


def stairs(heights: Sequence[float], css_class: str, is_area: bool) -> str:
    """One flat step a value, side by side over the whole canvas, as a line or as a filled area."""
    if not heights:
        return ""
    width = CANVAS / len(heights)
    tops = [f"V{CANVAS - height:.1f}H{(place + 1) * width:.1f}" for place, height in enumerate(heights)]
    if is_area:
        return f'<path class="{css_class}" d="M0 {CANVAS:.0f}{"".join(tops)}V{CANVAS:.0f}Z"/>'
    # A line starts at its first step, not at the ground.
    return f'<path class="{css_class}" d="M0 {CANVAS - heights[0]:.1f}{"".join(tops)}"/>'


def polyline(points: Sequence[tuple[float, float]], css_class: str) -> str:
    """A line through points of the canvas, given as distances from the left and from the ground."""
    if not points:
        return ""
    path = " ".join(f"{x:.1f} {CANVAS - y:.1f}" for x, y in points)
    return f'<path class="{css_class}" d="M{path}"/>'


def dots(points: Iterable[tuple[float, float, str]], css_class: str) -> str:
    """Points with a text that a pointer finds; drawn as strokes of no length, which stay round when stretched."""
    return "".join(
        f'<path class="{css_class}" d="M{x:.1f} {CANVAS - y:.1f}h0"><title>{text(label)}</title></path>'
        for x, y, label in points
    )
