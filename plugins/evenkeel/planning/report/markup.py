"""The building blocks of the report's HTML: sections, tables, badges and figures; every text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeGuard

ARROW = '<span class="arrow" aria-label="to">→</span>'
NOTHING = "–"
_BYTES_PER_MEGABYTE = 1_000_000


def text(value: object) -> str:
    """Anything from outside as text that no browser takes for markup."""
    return escape(str(value), quote=True)


def sentence(value: object) -> str:
    """A sentence from outside; a figure is not torn from its percent sign at the end of a line."""
    return text(value).replace(" %", "\N{NO-BREAK SPACE}%")


def code(value: object) -> str:
    """A name of the cluster: bundle, broker, digest."""
    return f"<code>{text(value)}</code>"


def badge(kind: str, label: str) -> str:
    """A word in a frame; `kind` is good, warn, bad or soft."""
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
    """A part that is folded away until it is asked for; both are HTML."""
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
    """A cell whose figures stand below each other."""
    return f'<td class="number">{html}</td>'


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells; on a narrow screen every row becomes a block whose cells bear their column's name."""
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
    """Give a cell the name of its column, which a narrow screen shows in its place."""
    return html.replace("<td", f'<td data-label="{text(name)}"', 1)


def shown(total: int, most: int, file: str) -> str:
    """How many rows there are, and where the rest of them is."""
    return f"The first {most:,} of {total:,}; all are in {text(file)}." if total > most else f"{total:,} in all."


def count(many: float, noun: str) -> str:
    """A number with its noun, in the plural where it has to be."""
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def words(name: str) -> str:
    """A name of the program as people write it."""
    return name.replace("_", " ")


def percent(share: Any) -> str:
    """A share as percent with one digit after the point."""
    return f"{100 * share:.1f} %" if is_figure(share) else NOTHING


def figure(value: Any, digits: int = 0) -> str:
    """A number with its thousands marked, or a dash where there is none."""
    return f"{value:,.{digits}f}" if is_figure(value) else NOTHING


def megabytes(bytes_per_s: int) -> str:
    return f"{bytes_per_s / _BYTES_PER_MEGABYTE:,.2f}"


def is_figure(value: Any) -> TypeGuard[float]:
    """Whether a value of a document can be shown as a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)
