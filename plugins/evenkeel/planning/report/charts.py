"""The drawing of the report: bars, skylines and curves as inline SVG that stretches with the page.

Shapes are drawn on a canvas of 1000 × 1000 and stretched; letters would be stretched with them, so all labels are HTML
beside the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenkeel.planning.report.markup import text

CANVAS = 1000.0
# How far apart round numbers of a scale may be, times a power of ten.
_ROUND_STEPS = (1, 2, 2.5, 5, 10)
# A label at an edge of a plot stands inside of it.
_EDGES = {"0.00%": "first", "100.00%": "last"}


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
