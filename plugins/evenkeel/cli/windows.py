"""`evenkeel windows`: when a cluster may be rebalanced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from evenkeel.cli.options import CommonOptions, command
from evenkeel.cli.output import escape, out, print_json
from evenkeel.model.errors import InputError
from evenkeel.windows.calendar import Window
from evenkeel.windows.rules import format_span

MOST_LISTED = 1_000


@command
def windows(
    where: CommonOptions,
    count: Annotated[
        int, typer.Option("--next", metavar="N", min=1, max=MOST_LISTED, help="How many windows to list.")
    ] = 10,
) -> None:
    """List the coming maintenance windows, and why some stay closed."""
    now = datetime.now(UTC)
    cluster = where.cluster_name
    section = where.configuration.require(cluster) if where.configuration.clusters else where.section_of(cluster)
    calendar = section.windows_on(now.date())
    if not calendar.rules:
        raise InputError(
            f"cluster {cluster!r} has no maintenance windows", f"add [[clusters.{cluster}.windows]] to evenkeel.toml"
        )
    listed = list(islice(calendar.judged(now), count))
    if where.as_json:
        print_json({"cluster": cluster, "windows": [window.describe(now) for window in listed]})
        return
    from rich.table import Table

    table = Table(box=None)
    for heading in ("window", "opens", "closes", ""):
        table.add_column(heading, overflow="fold", no_wrap=heading in ("opens", "closes"))
    for window in listed:
        zone = ZoneInfo(window.time_zone)
        opens, closes = window.start.astimezone(zone), window.end.astimezone(zone)
        table.add_row(
            escape(window.name),
            f"{opens:%a %Y-%m-%d %H:%M %Z}",
            f"{closes:%H:%M}" if closes.date() == opens.date() else f"{closes:%a %H:%M}",
            escape(_remark(window, now)),
        )
    out.print(table)
    if not any(window.is_open for window in listed):
        out.print("none of these windows opens; list more with --next")


def _remark(window: Window, now: datetime) -> str:
    if not window.is_open:
        return f"closed: {window.closed_because}"
    zone = ZoneInfo(window.time_zone)
    when = f"open now, {_short(window.end - now)} left" if window.start <= now else f"in {_short(window.start - now)}"
    lead = f", planning from {window.run_after.astimezone(zone):%H:%M}" if window.lead else ""
    cutoff = f", last step before {window.last_step_before.astimezone(zone):%H:%M}" if window.cutoff else ""
    return when + lead + cutoff


def _short(span: timedelta) -> str:
    """A span as people say it: days and hours, or hours and minutes."""
    return format_span(span - span % (timedelta(hours=1) if span >= timedelta(days=1) else timedelta(minutes=1)))
