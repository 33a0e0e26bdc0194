"""`evenkeel diff`: two plans side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.cli.options import LakeOptions, command
from evenkeel.cli.output import escape, out, print_json, working
from evenkeel.model.plan_summary import format_rate
from evenkeel.report.diff import Difference, PlanDifference, StepDifference, compare_plans

MOST_ROWS_SHOWN = 50
NOTHING = "–"

FirstPlan = Annotated[str, typer.Argument(metavar="PLAN", help="The first plan: id, unique prefix, `latest` or URI.")]
SecondPlan = Annotated[str, typer.Argument(metavar="PLAN", help="The second plan: id, unique prefix, `latest` or URI.")]


@command
def diff(first: FirstPlan, second: SecondPlan, where: LakeOptions) -> None:
    """Compare two plans for the same cluster.

    Shows how they differ in origin, settings, figures, waves and steps.
    """
    with working("reading the plans"):
        mine, theirs = _load(where, first), _load(where, second)
    found = compare_plans(mine.plan, mine.steps, theirs.plan, theirs.steps)
    if where.as_json:
        print_json(found.to_json() | {"first_uri": mine.uri, "second_uri": theirs.uri})
    else:
        _print_difference(found)


def _load(where: LakeOptions, reference: str) -> StoredPlan:
    lake, wanted = where.locate("plans", reference)
    return PlanStore(lake).load(wanted, where.known_cluster)


def _print_difference(found: PlanDifference) -> None:
    out.print(f"cluster [bold]{escape(found.cluster)}[/]")
    out.print(f"  first  plan {found.first}")
    out.print(f"  second plan {found.second}")
    if found.first == found.second:
        out.print("they are the same plan")
        return
    _print_differences("origin", found.origins)
    _print_differences("settings that differ", found.settings)
    _print_figures(found)
    _print_waves(found)
    moved = f", {found.rescheduled:,} of them in another wave" if found.rescheduled else ""
    out.print(f"{found.same_steps:,} steps are the same in both{moved}")
    _print_steps("only in the first", "[red]-[/]", found.only_first)
    _print_steps("only in the second", "[green]+[/]", found.only_second)
    _print_steps("in both, but not the same", "[yellow]~[/]", found.elsewhere)
    if found.has_same_steps:
        out.print("both plans have the same steps")


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
        table.add_row(escape(row.name), escape(_value(row.first)), escape(_value(row.second)))
    out.print(table)


def _print_figures(found: PlanDifference) -> None:
    table = _table("figures", "", "first", "second", "change")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in found.figures:
        figures = (_figure(row.name, value) for value in (row.first, row.second))
        table.add_row(row.name.removesuffix("_bytes_per_s").replace("_", " "), *figures, _change(row))
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
            _figure("client_seconds", row.first_client_seconds),
            _figure("client_seconds", row.second_client_seconds),
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


def _figure(name: str, value: Any) -> str:
    """A figure rounded to what matters."""
    if value is None:
        return NOTHING
    if name.endswith("_bytes_per_s"):
        return format_rate(value)
    return f"{value:,.0f}" if name == "client_seconds" else _value(value)


def _change(row: Difference) -> str:
    if row.first is None or row.second is None:
        return ""
    first, second, change = _figure(row.name, row.first), _figure(row.name, row.second), row.second - row.first
    return "" if first == second else f"{'+' if change > 0 else '-'}{_figure(row.name, abs(change))}"
