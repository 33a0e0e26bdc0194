"""Commands that are imported only when they are called, and help in plain text that needs none of them.

Importing every command takes a second, most of it for libraries that `evenkeel --help` and most commands never use.
Help is plain text with headings, since importing rich alone takes as long as everything else that help needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    # typer has click inside, and exports only a part of it.
    from typer._click.core import Command, Context, Parameter
    from typer._click.formatting import HelpFormatter

CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
ARGUMENTS, OPTIONS = "Arguments", "Options"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is, and what the list of all commands says about it."""

    panel: str
    module: str
    attribute: str
    summary: str

    def load(self, name: str) -> Command:
        found = getattr(importlib.import_module(self.module), self.attribute)
        if isinstance(found, typer.Typer):
            return get_command(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, cls=PlainCommand, context_settings=CONTEXT_SETTINGS)(found)
        return get_command(alone)


class PlainCommand(TyperCommand):
    """A command whose help groups options under their headings."""

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        write_parameters(self, ctx, formatter)

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        return [str(self.options_metavar), *map(_name_argument, arguments)]


class LazyGroup(TyperGroup):
    """A group that lists its commands without importing them."""

    lazy_commands: Mapping[str, LazyCommand] = {}

    def list_commands(self, ctx: Context) -> list[str]:
        return list(self.lazy_commands)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name not in self.commands and cmd_name in self.lazy_commands:
            self.commands[cmd_name] = self.lazy_commands[cmd_name].load(cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        if args and args[0] not in self.lazy_commands:
            from difflib import get_close_matches

            close = get_close_matches(args[0], self.lazy_commands)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        for panel in dict.fromkeys(each.panel for each in self.lazy_commands.values()):
            with formatter.section(panel):
                formatter.write_dl(
                    [(name, each.summary) for name, each in self.lazy_commands.items() if each.panel == panel]
                )
        write_parameters(self, ctx, formatter)


def write_parameters(command: Command, ctx: Context, formatter: HelpFormatter) -> None:
    """Write arguments, then a command's own options, then the options under other headings."""
    panels: dict[str, list[tuple[str, str]]] = {ARGUMENTS: [], OPTIONS: []}
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument":
            panels[ARGUMENTS].append((_name_argument(parameter), getattr(parameter, "help", None) or ""))
        elif (record := parameter.get_help_record(ctx)) is not None:
            panel = getattr(parameter, "rich_help_panel", None) or OPTIONS
            panels.setdefault(panel, []).append((record[0], record[1].replace("env var:", "env:")))
    for panel, records in panels.items():
        if records:
            with formatter.section(panel):
                formatter.write_dl(records)


def _name_argument(parameter: Parameter) -> str:
    return str(getattr(parameter, "metavar", None) or parameter.name)
