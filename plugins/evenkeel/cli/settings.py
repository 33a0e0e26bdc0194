"""`evenkeel settings`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from evenkeel.cli.options import AsJson, command
from evenkeel.cli.output import escape, out, print_json
from evenkeel.model.setting_fields import SettingUse
from evenkeel.model.settings import describe_settings

_NOTES = {
    SettingUse.EVENKEEL: "",
    SettingUse.REPLAY: " (only for the replay of Pulsar's own strategies)",
    SettingUse.NOTHING: " (no effect in Evenkeel)",
}


@command
def settings(as_json: AsJson = False) -> None:
    """List every setting with its default and meaning.

    Put settings under [settings] in evenkeel.toml, or at the top level of a TOML file for --settings.
    """
    described = describe_settings()
    if as_json:
        print_json([asdict(each) for each in described])
        return
    from rich.table import Table

    table = Table(box=None)
    for heading in ("key", "default", "meaning"):
        table.add_column(heading, overflow="fold")
    for each in described:
        table.add_row(each.key, escape(format_default(each.default)), escape(each.meaning + _NOTES[each.used_by]))
    out.print(table)


def format_default(value: Any) -> str:
    """Write a default as a settings file has it; TOML has no null, so a setting without a default is left out there."""
    return "not set" if value is None else json.dumps(value)
