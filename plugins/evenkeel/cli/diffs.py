"""`evenkeel diff`: two plans side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from evenkeel.adapters.plans import PlanStore, StoredPlan
from evenkeel.cli.options import AsJson, MaybeLakeUri, locate
from evenkeel.cli.output import escape, out, print_json, reporting
from evenkeel.planning.diff import Difference, PlanDifference, StepDifference, compare_plans

MOST_ROWS_SHOWN = 50
NOTHING = "–"

FirstPlan = Annotated[str, typer.Argument(metavar="PLAN", help="The plan to compare with: an id or a URI.")]
SecondPlan = Annotated[str, typer.Argument(metavar="PLAN", help="The other plan: an id or a URI.")]


def diff(first: FirstPlan, second: SecondPlan, lake: MaybeLakeUri = None, as_json: AsJson = False) -> None:
    """Show what differs between two plans of a cluster: origin, settings, figures, steps and waves."""
    with reporting(as_json):
        mine, theirs = _load(first, lake), _load(second, lake)
        found = compare_plans(mine.plan, mine.steps, theirs.plan, theirs.steps)
        if as_json:
            print_json(found.to_json() | {"first_uri": mine.uri, "second_uri": theirs.uri})
        else:
            _print_difference(found)


def _load(reference: str, lake: str | None) -> StoredPlan:
    place, plan = locate("plans", reference, lake)
    return PlanStore(place).load(plan)


def _print_difference(found: PlanDifference) -> None:
    out.print(f"cluster [bold]{escape(found.cluster)}[/]")
    out.print(f"  first  plan {found.first}")
    out.print(f"  second plan {found.second}")
    if found.first == found.second:
        out.print("they are the same plan")
        return
    _print_differences("where they come from", found.origins)
    _print_differences("settings that differ", found.settings)
    _print_figures(found)
    _print_waves(found)
    moved = f", {found.rescheduled:,} of them in another wave" if found.rescheduled else ""
    out.print(f"{found.same_steps:,} steps are the same in both{moved}")
    _print_steps("only in the first", "[red]-[/]", found.only_first)
    _print_steps("only in the second", "[green]+[/]", found.only_second)
    _print_steps("the same bundle, but differently", "[yellow]~[/]", found.elsewhere)
    if found.has_same_steps:
        out.print("no bundle is treated differently")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _print_differences(title: str, rows: Sequence[Difference]) -> None:
    if not rows:
        return
    table = _table(title, "", "first", "second")
    for row in rows:
        table.add_row(Text(row.name), Text(_value(row.first)), Text(_value(row.second)))
    out.print(table)


def _print_figures(found: PlanDifference) -> None:
    table = _table("figures", "", "first", "second", "change")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in found.figures:
        table.add_row(row.name.replace("_", " "), _value(row.first), _value(row.second), _change(row))
    out.print(table)


def _print_waves(found: PlanDifference) -> None:
    if not found.waves:
        return
    table = _table("waves", "wave", "first: steps", "second: steps", "first: client-seconds", "second: client-seconds")
    for column in table.columns:
        column.justify = "right"
    for row in found.waves[:MOST_ROWS_SHOWN]:
        table.add_row(
            str(row.wave),
            _value(row.first_steps),
            _value(row.second_steps),
            _value(row.first_client_seconds),
            _value(row.second_client_seconds),
        )
    out.print(table)
    _print_rest(len(found.waves))


def _print_steps(title: str, mark: str, rows: Sequence[StepDifference]) -> None:
    """One line a bundle, which a terminal does not fold, so that names can be copied."""
    if not rows:
        return
    out.print(f"{title}: {len(rows):,}")
    for row in rows[:MOST_ROWS_SHOWN]:
        routes = "  instead of  ".join(escape(route) for route in (row.second, row.first) if route is not None)
        out.print(f"  {mark} {escape(row.bundle)}  {routes}")
    _print_rest(len(rows))


def _print_rest(count: int) -> None:
    if count > MOST_ROWS_SHOWN:
        out.print(f"… and {count - MOST_ROWS_SHOWN:,} more; --json prints all")


def _value(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _change(row: Difference) -> str:
    if not isinstance(row.first, int | float) or not isinstance(row.second, int | float) or row.first == row.second:
        return ""
    change = row.second - row.first
    told = f"{change:+,}" if isinstance(change, int) else f"{change:+,.3f}"
    return "" if told in ("+0.000", "-0.000") else told
