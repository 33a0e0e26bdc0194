"""Plans and runs as tables and bars in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from evenkeel.adapters.plans import StoredPlan
from evenkeel.cli.output import escape, out
from evenkeel.execution.verification import BrokerCheck
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import BrokerBalance, Step

BAR_CELLS = 24
MOST_STEPS_SHOWN = 200


def print_plan(stored: StoredPlan) -> None:
    """The plan in a few lines: what it does, what it is worth, how far from the best it is."""
    plan = stored.plan
    counts = ", ".join(f"{number} {kind}" for kind, number in plan.step_counts.items() if number) or "no steps"
    out.print(f"plan [bold]{stored.plan_id}[/]")
    out.print(f"  cluster {escape(plan.cluster)}, snapshot {plan.snapshot_id}, strategy {plan.strategy}")
    out.print(f"  {counts}; fewest that any plan needs: {plan.bounds['moves']}")
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
