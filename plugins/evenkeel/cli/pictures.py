"""Plans and runs as tables and bars in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from evenkeel.adapters.lake.plans import StoredPlan
from evenkeel.cli.output import escape, out
from evenkeel.execution.measured_load import BrokerCheck
from evenkeel.model.figures import CurvePoint, PoolFigures, StrategyReplay
from evenkeel.model.plan import BrokerBalance, Step, StepKind
from evenkeel.model.plan_summary import RESOURCE_NAMES, PeakChange, name_pool, summarise
from evenkeel.model.visible_text import make_visible

if TYPE_CHECKING:
    from evenkeel.stages.runs import ListedRun

BAR_CELLS = 24
MOST_STEPS_SHOWN = 200
MOST_POOLS_SHOWN = 10
CURVE_ROWS = 8
REASON_INDENT = (0, 0, 0, 7)


def print_plan(stored: StoredPlan) -> None:
    """The plan in a few lines: what it does, how close to the best it is, and what it costs."""
    summary = summarise(stored.plan, stored.rejections, stored.brokers)
    out.print(f"plan [bold]{summary.plan_id}[/]")
    made_from = f"snapshot {summary.snapshot_id}, strategy {summary.strategy}"
    out.print(f"  cluster {escape(summary.cluster)}, {escape(made_from)}")
    out.print(f"  {escape(summary.headline)}")
    for sentence in summary.sentences:
        out.print(f"  {escape(sentence)}")
    for peak in summary.peaks:
        out.print(f"  {RESOURCE_NAMES[peak.resource]:<13} {escape(_describe_peak(peak))}")
    left_alone = f"; {len(stored.rejections):,} rejections, see the report" if stored.rejections else ""
    out.print(f"  expires {stored.plan.expires_at:%Y-%m-%d %H:%M:%S} UTC{left_alone}")
    out.print(f"  {escape(stored.uri)}")


def _describe_peak(peak: PeakChange) -> str:
    if peak.is_idle:
        return f"nearly idle, at most {max(peak.before, peak.peak_after):.1%} of a limit"
    change = f"{peak.broker} {peak.before:.1%} → {peak.after:.1%} of its limit"
    if peak.busiest_after != peak.broker:
        change += f", then busiest: {peak.busiest_after} {peak.peak_after:.1%}"
    return f"{change}; max/mean {peak.max_over_mean_before:.3f} → {peak.max_over_mean_after:.3f}"


def print_steps(steps: Sequence[Step]) -> None:
    """The steps by wave: what each does on a line that can be copied, and its reason below."""
    out.print(f"{len(steps):,} steps")
    for wave, its_steps in groupby(steps[:MOST_STEPS_SHOWN], key=attrgetter("wave")):
        out.print(f"wave {wave}{', the canary' if wave == 0 else ''}")
        for step in its_steps:
            out.print(f"  {step.order:>3}  {escape(describe_step(step))}")
            out.print(Padding(Text(make_visible(step.reason), style="dim"), REASON_INDENT), soft_wrap=False)
    if len(steps) > MOST_STEPS_SHOWN:
        out.print(f"… and {len(steps) - MOST_STEPS_SHOWN:,} more; --json prints all")


def describe_step(step: Step) -> str:
    """Say what a step does."""
    if step.kind == StepKind.SPLIT:
        return f"split {step.bundle} at {step.split_boundary:#010x}; both halves stay with {step.source}"
    if step.kind == StepKind.UNLOAD:
        return f"unload {step.bundle} from {step.source}; Pulsar chooses the next owner"
    return f"move {step.bundle} from {step.source} to {step.destination}"


def print_curve(points: Sequence[CurvePoint]) -> None:
    """What a shorter plan would achieve: a few points of the curve, with the busiest broker as a bar."""
    if len(points) < 2:
        return
    table = Table(title="balance against moves (worst = busiest broker over the lowest reachable peak)", box=None)
    for heading in ("moves", "sessions", "client-seconds", "worst", ""):
        table.add_column(heading, justify="left" if not heading else "right")
    top = max(point.worst for point in points) or 1.0
    for point in _evenly(points, CURVE_ROWS):
        table.add_row(
            _figure(point.moves),
            _figure(point.sessions),
            _figure(point.client_seconds),
            _figure(point.worst, 3),
            _bar(point.worst / top, "green"),
        )
    out.print(table)


def print_pools(pools: Sequence[PoolFigures]) -> None:
    """The pools outside their band, each with what would help; the others are only counted."""
    outside = [pool for pool in pools if not pool.reaches_band]
    if not pools:
        return
    out.print(f"pools: {len(pools) - len(outside)} of {len(pools)} inside the band")
    for pool in outside[:MOST_POOLS_SHOWN]:
        out.print(f"  {escape(name_pool(pool))}: limited by {pool.limited_by}")
        for advice in pool.advice:
            out.print(f"    {escape(advice)}")
    if len(outside) > MOST_POOLS_SHOWN:
        out.print(f"  … and {len(outside) - MOST_POOLS_SHOWN} more; --json prints all")


def print_counterfactual(rows: Sequence[StrategyReplay]) -> None:
    """What Pulsar's own strategies would have done with the same snapshot."""
    if not rows:
        return
    table = Table(title="what Pulsar itself would have done", box=None)
    for heading in ("strategy", "unloads", "moved again", "sessions", "client-seconds", "worst"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right", no_wrap=True)
    for row in rows:
        counts = (row.unloads, row.repeat_unloads, row.moved_sessions, row.client_seconds)
        table.add_row(escape(row.strategy), *map(_figure, counts), _figure(row.worst_after, 3))
    out.print(table)
    for row in rows:
        if row.stopped_because:
            out.print(f"  {escape(row.strategy)} stops: {escape(row.stopped_because)}")


def _evenly(points: Sequence[CurvePoint], most: int) -> list[CurvePoint]:
    """The first, the last, and points at even distances between them."""
    if len(points) <= most:
        return list(points)
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]


def _figure(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def print_balance(rows: Sequence[BrokerBalance]) -> None:
    """Each broker's busiest resource before the plan and, as predicted, after it."""
    _print_bars(
        {(row.broker_id, row.resource): (row.used_before, row.used_after, row.limit) for row in rows}, "predicted"
    )


def print_realised(checks: Sequence[BrokerCheck]) -> None:
    """Each broker's busiest resource before the run and, as measured, after it."""
    _print_bars(
        {
            (check.broker_id, check.resource): (check.before, check.realised or 0, check.limit)
            for check in checks
            if check.realised is not None
        },
        "measured after it",
    )


def _print_bars(figures: Mapping[tuple[str, str], tuple[int, int, int]], what: str) -> None:
    table = Table(title=f"busiest resource of each broker, before and {what}", box=None)
    for heading in ("broker", "before", "", "after", ""):
        table.add_column(heading, justify="right" if heading in ("before", "after") else "left")
    shares = {key: (before / limit, after / limit) for key, (before, after, limit) in figures.items() if limit}
    top = max((max(pair) for pair in shares.values()), default=1.0) or 1.0
    for broker in sorted({broker for broker, _ in shares}):
        mine = [pair for (owner, _), pair in shares.items() if owner == broker]
        before, after = max(pair[0] for pair in mine), max(pair[1] for pair in mine)
        bars = (f"{before:.1%}", _bar(before / top, "yellow"), f"{after:.1%}", _bar(after / top, "green"))
        table.add_row(escape(broker), *bars)
    out.print(table)


def _bar(share: float, colour: str) -> Text:
    return Text("█" * round(share * BAR_CELLS), style=colour)


def print_runs(runs: Sequence[ListedRun]) -> None:
    """A line a run, and below it why it did not end well, if it did not."""
    if not runs:
        out.print("no runs yet")
    for run in runs:
        colour = {"done": "green", "running": "cyan"}.get(run.state, "yellow")
        when = run.started_at[:19].replace("T", " ")
        counts = f"{run.settled} settled, {run.skipped} skipped, {run.failed} failed"
        where = f"{escape(run.cluster)}, {escape(run.strategy)}"
        out.print(f"[bold]{run.run_id}[/]  [{colour}]{run.state:<11}[/]  {when:<19}  {where}: {counts}")
        if run.detail:
            out.print(f"  {escape(run.detail)}")
