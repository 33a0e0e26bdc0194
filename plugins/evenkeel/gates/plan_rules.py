"""What a plan must satisfy before anyone approves it.

Tables: `plan` (the document, one row), `plan_violations` (one row a broken hard rule), `plan_steps` (each step beside
what the snapshot says of its bundle), `plan_brokers` (one row a broker and resource, load before and after). All of
them are small.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from evenkeel.gates.rules import Breach, rule
from evenkeel.model.plan import StepKind

if TYPE_CHECKING:
    import pyarrow as pa

NO_WORSE = "plan_is_no_worse_than_before"

# Utilisations are quotients; a difference below this is rounding.
_ROUNDING = 1e-9


@rule("plan", "The plan expires after the snapshot that it was made from")
def plan_expires_after_its_snapshot(rows: pa.Table) -> Iterator[Breach]:
    """A plan that was never valid cannot be approved in time."""
    for row in rows.to_pylist():
        if row["lifetime_s"] <= 0:
            yield Breach(f"the plan expires at {row['expires_at']}, its snapshot is of {row['taken_at']}")


@rule("plan", "The plan changes something")
def plan_has_steps(rows: pa.Table) -> Iterator[Breach]:
    """An empty plan is no fault, but whoever waits for a change should know."""
    for row in rows.to_pylist():
        if row["steps"] == 0:
            yield Breach("the plan has no steps")


@rule("plan", "The plan was not cut short by a deadline")
def plan_is_complete(rows: pa.Table) -> Iterator[Breach]:
    """A search that a clock cut short may give another plan next time."""
    for row in rows.to_pylist():
        if row["truncated"]:
            yield Breach("a deadline cut the search for the plan short, so a better one may exist")


@rule("plan_violations", "Destinations are eligible and every hard rule holds, in any order within a wave")
def hard_rules_hold(rows: pa.Table) -> Iterator[Breach]:
    """Reads the verifier's findings, and names them in its order."""
    for row in rows.to_pylist():
        of_step = "" if row["order"] is None else f"step {row['order']}: "
        yield Breach(f"{of_step}{row['detail']}", -row["place"])


@rule("plan_steps", "Every step starts at the owner that the snapshot names")
def steps_start_at_the_owner(rows: pa.Table) -> Iterator[Breach]:
    """A step is legal only from where the bundle is."""
    for row in rows.to_pylist():
        if row["snapshot_owner"] == row["source"]:
            continue
        if not row["is_in_snapshot"]:
            fault = "is not in the snapshot"
        elif row["snapshot_owner"] is None:
            fault = "has no owner in the snapshot"
        else:
            fault = f"is owned by {row['snapshot_owner']}, the plan says {row['source']}"
        yield Breach(f"step {row['order']}: bundle {row['bundle']} {fault}", -row["order"])


@rule("plan_steps", "The plan keeps its budgets of steps, splits and steps a wave")
def budgets_are_kept(
    rows: pa.Table, max_steps: int, max_splits: int, canary_steps: int, wave_steps: int
) -> Iterator[Breach]:
    """Budgets are hard: they limit what can go wrong before somebody notices."""
    steps = rows.to_pylist()
    budgets = [
        ("the plan", len(steps), "steps", max_steps),
        ("the plan", sum(step["kind"] == StepKind.SPLIT for step in steps), "splits", max_splits),
    ]
    for wave, found in Counter(step["wave"] for step in steps).items():
        budgets.append((f"wave {wave}", found, "steps", canary_steps if wave == 0 else wave_steps))
    for what, found, noun, budget in budgets:
        if found > budget:
            yield Breach(f"{what} has {found:,} {noun}, the budget is {budget:,}", found - budget)


@rule("plan_brokers", "The load before the plan is that of its snapshot")
def balance_starts_at_the_snapshot(rows: pa.Table) -> Iterator[Breach]:
    """A plan for another load than that of its snapshot may be right, but not for the reasons that it gives."""
    for row in rows.to_pylist():
        before, by_snapshot = row["used_before"], row["used_in_snapshot"]
        if before != by_snapshot:
            yield Breach(f"{_name(row)} is {before:,} before the plan by its table, {by_snapshot:,} by the snapshot")


@rule("plan_brokers", "The load after the plan is what its steps lead to")
def balance_agrees_with_steps(rows: pa.Table) -> Iterator[Breach]:
    """What a person approves is the table; what is applied are the steps."""
    for row in rows.to_pylist():
        after, by_steps = row["used_after"], row["used_by_steps"]
        if after != by_steps:
            yield Breach(f"{_name(row)} is {after:,} after the plan by its table, {by_steps:,} by its steps")


@rule("plan_brokers", "No resource's peak is higher after the plan than before")
def plan_is_no_worse_than_before(rows: pa.Table, may_rise: bool, overload_line_percent: float) -> Iterator[Breach]:
    """No broker may end above the highest utilisation that its pool had before, unless it stays inside the band.

    A plan that empties brokers or repairs rules has to put the load somewhere: it may go up to the overload line.
    """
    known = _with_limits(rows)
    peaks: dict[tuple[str, str], float] = defaultdict(float)
    for row in known:
        pool = row["pool"], row["resource"]
        peaks[pool] = max(peaks[pool], row["used_before"] / row["limit"])
    line = overload_line_percent / 100 if may_rise else 0.0
    for row in known:
        after, peak_before = row["used_after"] / row["limit"], peaks[row["pool"], row["resource"]]
        allowed = max(peak_before, row["band_limit"] / row["limit"], line)
        if after > allowed + _ROUNDING:
            yield Breach(
                f"{_name(row)} would be at {100 * after:.1f} % of its limit, "
                f"the highest before was {100 * peak_before:.1f} %",
                after - allowed,
            )


@rule("plan_brokers", "No broker ends above the overload line")
def brokers_end_below_the_overload_line(rows: pa.Table, overload_line_percent: float) -> Iterator[Breach]:
    """Pulsar itself sheds from a broker above this line."""
    for row in _with_limits(rows):
        percent = 100 * (row["used_after"] / row["limit"])
        if percent > overload_line_percent:
            yield Breach(
                f"{_name(row)} would be at {percent:.1f} % of its limit, "
                f"the overload line is {overload_line_percent:.1f} %",
                percent,
            )


@rule("plan_brokers", "Every resource of every broker ends inside the band")
def brokers_end_inside_the_band(rows: pa.Table) -> Iterator[Breach]:
    """The plan is the best that was found; what stays outside is named, the worst first."""
    for row in _with_limits(rows):
        # A broker that no bundle of its pool may move to has no band.
        if 0 < row["band_limit"] < row["used_after"]:
            after, band = row["used_after"] / row["limit"], row["band_limit"] / row["limit"]
            yield Breach(
                f"{_name(row)} would be at {100 * after:.1f} % of its limit, the band ends at {100 * band:.1f} %",
                after - band,
            )


def _name(row: dict[str, Any]) -> str:
    return f"{row['resource'].replace('_', ' ')} of broker {row['broker_id']}"


def _with_limits(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows whose limit is known; the others are not planned."""
    return [row for row in rows.to_pylist() if row["limit"] > 0]
