"""Plans and runs as tables and bars in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from evenkeel.adapters.plans import StoredPlan
from evenkeel.cli.output import escape, out
from evenkeel.execution.verification import BrokerCheck
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import BrokerBalance, Step

if TYPE_CHECKING:
    from evenkeel.stages.runs import ListedRun

BAR_CELLS = 24
MOST_STEPS_SHOWN = 200
MOST_POOLS_SHOWN = 10
CURVE_ROWS = 8


def print_plan(stored: StoredPlan) -> None:
    """The plan in a few lines: what it does, what it is worth, how far from the best it is."""
    plan = stored.plan
    counts = ", ".join(f"{number} {kind}" for kind, number in plan.step_counts.items() if number) or "no steps"
    out.print(f"plan [bold]{stored.plan_id}[/]")
    out.print(f"  cluster {escape(plan.cluster)}, snapshot {plan.snapshot_id}, strategy {plan.strategy}")
    # A plan whose steps a person chose has no bound.
    bound = f"; fewest that any plan needs: {plan.bounds['moves']}" if "moves" in plan.bounds else ""
    out.print(f"  {counts}{bound}")
    for resource in RESOURCES:
        before, after = plan.balance["before"].get(resource), plan.balance["after"].get(resource)
        if before and after:
            out.print(
                f"  {resource:<13} busiest broker {before['max']:6.1%} → {after['max']:6.1%}, "
                f"max/mean {before['max_over_mean']:.3f} → {after['max_over_mean']:.3f}"
            )
    out.print(
        f"  disruption {plan.disruption['client_seconds']:,} client-seconds, {plan.disruption['sessions']:,} sessions"
    )
    out.print(f"  expires {plan.expires_at:%Y-%m-%d %H:%M:%S} UTC; {len(stored.rejections)} things were left alone")
    out.print(f"  {escape(stored.uri)}")


def print_steps(steps: Sequence[Step]) -> None:
    """The steps as a table."""
    table = Table(title=f"{len(steps)} steps")
    for heading in ("#", "wave", "kind", "bundle", "from", "to", "why"):
        table.add_column(heading, overflow="fold")
    for step in steps[:MOST_STEPS_SHOWN]:
        table.add_row(
            str(step.order),
            str(step.wave),
            step.kind,
            step.bundle,
            step.source,
            step.destination or "–",
            Text(step.reason),
        )
    out.print(table)
    if len(steps) > MOST_STEPS_SHOWN:
        out.print(f"… and {len(steps) - MOST_STEPS_SHOWN} more; --json prints all")


def print_curve(points: Sequence[Mapping[str, Any]]) -> None:
    """What a shorter plan would be worth: a few points of the curve, with the worst broker as a bar."""
    if len(points) < 2:
        return
    table = Table(title="balance against moves (1 = the lowest peak that its pool can reach)", box=None)
    for heading in ("moves", "sessions", "client-seconds", "worst", ""):
        table.add_column(heading, justify="left" if not heading else "right")
    top = max(float(point["worst"]) for point in points) or 1.0
    for point in _evenly(points, CURVE_ROWS):
        table.add_row(
            *(_figure(point.get(key)) for key in ("moves", "sessions", "client_seconds", "worst")),
            _bar(float(point["worst"]) / top, "green"),
        )
    out.print(table)


def print_pools(pools: Sequence[Mapping[str, Any]]) -> None:
    """Pools that do not reach their band, each with what would help; the others are only counted."""
    outside = [pool for pool in pools if not pool.get("reaches_band", True)]
    if not pools:
        return
    out.print(f"pools: {len(pools) - len(outside)} of {len(pools)} inside the band")
    for pool in outside[:MOST_POOLS_SHOWN]:
        name = pool.get("pool") or "namespaces without a broker"
        out.print(f"  {escape(str(name))}: limited by {escape(str(pool.get('limited_by')))}")
        for advice in pool.get("advice") or ():
            out.print(f"    {escape(str(advice))}")
    if len(outside) > MOST_POOLS_SHOWN:
        out.print(f"  … and {len(outside) - MOST_POOLS_SHOWN} more; --json prints all")


def print_counterfactual(rows: Sequence[Mapping[str, Any]]) -> None:
    """What Pulsar's own strategies would have done with the same snapshot."""
    if not rows:
        return
    table = Table(title="what Pulsar itself would have done", box=None)
    for heading in ("strategy", "unloads", "moved again", "sessions", "client-seconds", "worst"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right", no_wrap=True)
    for row in rows:
        keys = ("unloads", "repeat_unloads", "moved_sessions", "client_seconds", "worst_after")
        table.add_row(Text(str(row.get("strategy"))), *(_figure(row.get(key)) for key in keys))
    out.print(table)
    for row in rows:
        if row.get("stopped_because"):
            out.print(f"  {escape(str(row.get('strategy')))} stops: {escape(str(row['stopped_because']))}")


def _evenly(points: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """The first, the last, and points at even distances between them."""
    if len(points) <= most:
        return list(points)
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]


def _figure(value: Any) -> str:
    if not isinstance(value, int | float):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


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
        "realised",
    )
    if silent := sorted({check.broker_id for check in checks if check.realised is None}):
        out.print(f"no load report since the run: {escape(', '.join(silent))}")


def _print_bars(figures: Mapping[tuple[str, str], tuple[int, int, int]], what: str) -> None:
    table = Table(title=f"busiest resource of each broker, before and {what}", box=None)
    for heading in ("broker", "before", "", "after", ""):
        table.add_column(heading, justify="right" if heading in ("before", "after") else "left")
    shares = {key: (before / limit, after / limit) for key, (before, after, limit) in figures.items() if limit}
    top = max((max(pair) for pair in shares.values()), default=1.0) or 1.0
    for broker in sorted({broker for broker, _ in shares}):
        mine = [pair for (owner, _), pair in shares.items() if owner == broker]
        before, after = max(pair[0] for pair in mine), max(pair[1] for pair in mine)
        table.add_row(broker, f"{before:.1%}", _bar(before / top, "yellow"), f"{after:.1%}", _bar(after / top, "green"))
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
