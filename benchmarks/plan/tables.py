"""Prints the rows as tables that fit into 100 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.plan.cases import LARGE
from benchmarks.plan.rows import (
    ComparisonRow,
    DistanceRow,
    Figure,
    OrderRow,
    Row,
    RuleRow,
    ScaleRow,
    TimeRow,
    count_targets,
    find_misses,
)
from benchmarks.plan.targets import Results

Cell = str | Text
SomeRow = TypeVar("SomeRow", bound=Row)
# Six configurations can miss in many rows; the JSON document lists them all.
MOST_MISSES_SHOWN = 40


def print_results(results: Results, console: Console) -> None:
    """Print all tables, then the misses."""
    for size in dict.fromkeys(row.size for row in results.distances):
        distances = [row for row in results.distances if row.size == size]
        rules = [row for row in results.rules if row.size == size]
        _print(console, f"Distance from the lower bounds, {size}", distances, DISTANCE)
        _print(console, f"Rules and band, {size}, worst seed", rules, RULES)
    for size in dict.fromkeys(row.size for row in results.comparisons):
        rows = [row for row in results.comparisons if row.size == size]
        _print(console, f"Pulsar's shedders, {size}, and Evenkeel's moves for the same balance", rows, COMPARISON)
    _print(console, "Time to decide, without the certificate", results.times, TIME)
    _print(console, "The largest cluster", results.scale, SCALE)
    _print(console, "The same plan from rows in another order", results.orders, ORDER)
    _print_summary(results, console)


def _print_summary(results: Results, console: Console) -> None:
    misses = find_misses(results.rows)
    for miss in misses[:MOST_MISSES_SHOWN]:
        console.print(Text("MISSED ", "bold red") + Text(str(miss)))
    if len(misses) > MOST_MISSES_SHOWN:
        console.print(f"… and {len(misses) - MOST_MISSES_SHOWN} more")
    verdict = Text(f"{len(misses)} missed", "bold red") if misses else Text("none missed", "bold green")
    console.print(Text(f"{count_targets(results.rows)} figures with a target, ") + verdict)


def _print(
    console: Console, title: str, rows: Sequence[SomeRow], columns: dict[str, Callable[[SomeRow], Cell]]
) -> None:
    if not rows:
        return
    console.print(Text(title, "bold"))
    table = Table(box=None, padding=(0, 1, 0, 0))
    for heading in columns:
        is_name = heading in ("scenario", "objective", "configuration", "")
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=True)
    shown_scenario = None
    for row in rows:
        cells = [make(row) for make in columns.values()]
        # Name a scenario once, so that its rows read as one block.
        cells[0], shown_scenario = "" if cells[0] == shown_scenario else cells[0], cells[0]
        table.add_row(*cells)
    console.print(table)
    console.print()


def _figure(figure: Figure | None, form: str) -> Text:
    if figure is None:
        return Text("–")
    return Text(format(figure.value, form), "" if figure.is_met else "bold red")


def _target(figure: Figure | None, form: str = ".2f") -> str:
    return "–" if figure is None or figure.target is None else format(figure.target, form)


def _verdict(row: Row) -> Text:
    if row.is_met:
        return Text("ok" if count_targets([row]) else "–", "green")
    return Text("MISSED", "bold red")


def _lead(row: RuleRow) -> Text:
    leads = (row.own_moves_bound_lead, row.own_sessions_bound_lead, row.own_share_bound_lead)
    is_met = all(lead.is_met for lead in leads)
    return Text("yes" if is_met else "no", "" if is_met else "bold red")


def _anti_affinity(row: RuleRow) -> Text:
    style = "" if row.anti_affinity_rise.is_met else "bold red"
    return Text(f"{row.anti_affinity_before}→{row.anti_affinity_after}", style)


DISTANCE: dict[str, Callable[[DistanceRow], Cell]] = {
    "scenario": lambda row: row.scenario,
    "objective": lambda row: row.objective,
    "moves": lambda row: f"{row.moves:,}",
    "bound": lambda row: f"{row.moves_bound:,.0f}",
    "ratio": lambda row: _figure(row.moves_ratio, ".3f"),
    "≤": lambda row: _target(row.moves_ratio),
    "worst": lambda row: _figure(row.worst_moves_ratio, ".3f"),
    "sessions": lambda row: f"{row.sessions:,}",
    "bound ": lambda row: f"{row.sessions_bound:,.0f}",
    "ratio ": lambda row: _figure(row.sessions_ratio, ".3f"),
    "≤ ": lambda row: _target(row.sessions_ratio),
    "worst ": lambda row: _figure(row.worst_sessions_ratio, ".3f"),
    "": _verdict,
}
RULES: dict[str, Callable[[RuleRow], Cell]] = {
    "scenario": lambda row: row.scenario,
    "objective": lambda row: row.objective,
    "splits": lambda row: f"{row.splits}",
    "illegal": lambda row: _figure(row.illegal, ".0f"),
    "twice": lambda row: _figure(row.moved_twice, ".0f"),
    "misplaced": lambda row: _figure(row.misplaced_after, ".0f"),
    "anti-affinity": _anti_affinity,
    "worst after": lambda row: _figure(row.worst_after, ".4f"),
    "bounds ≥ judge's": _lead,
    "": _verdict,
}
COMPARISON: dict[str, Callable[[ComparisonRow], Cell]] = {
    "scenario": lambda row: row.scenario,
    "configuration": lambda row: row.configuration,
    "unloads": lambda row: f"{row.unloads:,}",
    "misplaced": lambda row: f"{row.misplaced_after:,}",
    "max/mean": lambda row: "–" if row.max_over_mean_after is None else f"{row.max_over_mean_after:.3f}",
    "worst after": lambda row: f"{row.worst_after:.3f}",
    "Evenkeel": lambda row: Text(f"{row.our_moves:,}", "" if row.moves_beyond_unloads.is_met else "bold red"),
    "": _verdict,
}
TIME: dict[str, Callable[[TimeRow], Cell]] = {
    "scenario": lambda row: row.scenario,
    "size": lambda row: row.size,
    "objective": lambda row: row.objective,
    "Evenkeel, s": lambda row: f"{row.solve_s:.2f}",
    "AvgShedder, s": lambda row: "–" if row.decide_s is None else f"{row.decide_s:.2f}",
    "ratio": lambda row: _figure(row.time_over_pulsar, ".3f"),
    "≤": lambda row: _target(row.time_over_pulsar),
    "": _verdict,
}
SCALE: dict[str, Callable[[ScaleRow], Cell]] = {
    "scenario": lambda row: row.scenario,
    "size": lambda row: row.size,
    "objective": lambda row: row.objective,
    "moves": lambda row: f"{row.moves:,}",
    "GiB": lambda row: _figure(row.peak_rss_gib, ".2f"),
    "≤": lambda row: _target(row.peak_rss_gib),
    "seconds": lambda row: f"{row.solve_s:.1f}",
    f"over {LARGE}": lambda row: _figure(row.time_over_large, ".1f"),
    "≤ ": lambda row: _target(row.time_over_large),
    "worst after": lambda row: _figure(row.worst_after, ".4f"),
    "": _verdict,
}
ORDER: dict[str, Callable[[OrderRow], Cell]] = {
    "scenario": lambda row: row.scenario,
    "size": lambda row: row.size,
    "": _verdict,
}
