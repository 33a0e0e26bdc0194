"""`evenkeel settings`."""

from __future__ import annotations

from dataclasses import asdict

from rich.table import Table

from evenkeel.cli.options import AsJson
from evenkeel.cli.output import escape, out, print_json
from evenkeel.model.settings import describe_settings


def settings(as_json: AsJson = False) -> None:
    """Print every setting with its meaning and default."""
    described = describe_settings()
    if as_json:
        print_json([asdict(each) for each in described])
        return
    table = Table(box=None)
    for heading in ("key", "default", "meaning"):
        table.add_column(heading, overflow="fold")
    for each in described:
        table.add_row(each.key, escape(repr(each.default)), escape(each.meaning))
    out.print(table)
