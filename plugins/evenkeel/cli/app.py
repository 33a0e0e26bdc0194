"""All commands of `evenkeel`, in the order in which an operator meets them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

from evenkeel import __version__
from evenkeel.cli.lazy_group import CONTEXT_SETTINGS, LazyCommand, LazyGroup

USAGE_EXIT_CODE = 2
SETUP, PLAN, APPLY, OPERATE = "Set up", "Plan", "Apply", "Operate"


class Commands(LazyGroup):
    """The summaries repeat the first lines of the commands' docstrings; a test holds them together."""

    lazy_commands = {  # noqa: RUF012
        "demo": LazyCommand(
            SETUP,
            "evenkeel.cli.demo",
            "demo",
            "Rebalance a simulated cluster with a real Airflow and Spark.",
        ),
        "local": LazyCommand(SETUP, "evenkeel.cli.local", "app", "Run a small cluster on this machine."),
        "doctor": LazyCommand(
            SETUP,
            "evenkeel.cli.doctor",
            "doctor",
            "Examine this machine, the cluster and the lake, and say how to fix problems.",
        ),
        "settings": LazyCommand(
            SETUP, "evenkeel.cli.settings", "settings", "List every setting with its default and meaning."
        ),
        "windows": LazyCommand(
            SETUP,
            "evenkeel.cli.windows",
            "windows",
            "List the coming maintenance windows, and why some stay closed.",
        ),
        "keygen": LazyCommand(SETUP, "evenkeel.cli.keys", "keygen", "Create a key pair for signing approvals."),
        "snapshot": LazyCommand(
            PLAN, "evenkeel.cli.snapshots", "snapshot", "Read a running cluster and store its load in the lake."
        ),
        "import": LazyCommand(
            PLAN, "evenkeel.cli.snapshots", "import_", "Store a cluster described by CSV files, for what-if planning."
        ),
        "plan": LazyCommand(
            PLAN, "evenkeel.cli.plans", "plan", "Compute which bundles to move where, and store the plan."
        ),
        "show": LazyCommand(
            PLAN, "evenkeel.cli.plans", "show", "Show a plan: balance before and after, bounds, cost, steps."
        ),
        "diff": LazyCommand(PLAN, "evenkeel.cli.diffs", "diff", "Compare two plans for the same cluster."),
        "check": LazyCommand(
            PLAN, "evenkeel.cli.plans", "check", "Run the plan's gate, store the verdict, write report.html."
        ),
        "approve": LazyCommand(APPLY, "evenkeel.cli.plans", "approve", "Approve exactly this plan."),
        "revoke": LazyCommand(
            APPLY,
            "evenkeel.cli.revoking",
            "revoke",
            "Revoke a plan, approved or not; a run of it stops before its next step.",
        ),
        "apply": LazyCommand(
            APPLY, "evenkeel.cli.runs", "apply", "Apply an approved plan, or continue an interrupted run of it."
        ),
        "verify": LazyCommand(
            APPLY, "evenkeel.cli.runs", "verify", "Compare the cluster after a run with what the plan predicted."
        ),
        "rollback": LazyCommand(
            APPLY,
            "evenkeel.cli.by_hand",
            "rollback",
            "Undo a run: move back the bundles that are still where it put them.",
        ),
        "runs": LazyCommand(APPLY, "evenkeel.cli.runs", "runs", "List runs, newest first, with their outcome."),
        "audit": LazyCommand(
            OPERATE,
            "evenkeel.cli.audits",
            "audit",
            "Compare runs with their plans, learn from them, and list what needs attention.",
        ),
        "blame": LazyCommand(
            OPERATE, "evenkeel.cli.audits", "blame", "Show who owned a bundle when, who moved it, and why."
        ),
        "move": LazyCommand(OPERATE, "evenkeel.cli.by_hand", "move", "Move one bundle to a broker of your choice."),
        "unload": LazyCommand(
            OPERATE, "evenkeel.cli.by_hand", "unload", "Unload one bundle; Pulsar chooses the next owner."
        ),
        "split": LazyCommand(
            OPERATE, "evenkeel.cli.by_hand", "split", "Split one bundle in two; a split cannot be undone."
        ),
        "drain": LazyCommand(OPERATE, "evenkeel.cli.draining", "drain", "Empty brokers for maintenance."),
        "stop": LazyCommand(
            OPERATE, "evenkeel.cli.kill_switch", "stop", "Stop all of Evenkeel's writes to a cluster at once."
        ),
        "restore-balancer": LazyCommand(
            OPERATE,
            "evenkeel.cli.restore_balancer",
            "restore_balancer",
            "Switch Pulsar's shedding and splitting back on if a dead writer left them off.",
        ),
        "resume": LazyCommand(OPERATE, "evenkeel.cli.kill_switch", "resume", "Allow writes again after a stop."),
    }


app = typer.Typer(
    name="evenkeel",
    cls=Commands,
    help="Keep Apache Pulsar brokers on an even keel: snapshot, plan, check, approve, apply, verify.",
    epilog="`evenkeel COMMAND --help` explains a command. Most options can also be set in evenkeel.toml or by an "
    "environment variable.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=CONTEXT_SETTINGS,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _evenkeel(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Configuration file; can also follow the command.")
    ] = None,
    zookeeper_security: Annotated[
        Path | None,
        typer.Option(
            "--zookeeper-security", metavar="FILE", help="ZooKeeper security file; can also follow the command."
        ),
    ] = None,
) -> None:
    """Commands read both files where they need them, see `evenkeel.cli.options`."""


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; wrong usage is a JSON document too where --json is given."""
    try:
        code = get_command(app).main(list(arguments), prog_name="evenkeel", standalone_mode=False)
    except typer.TyperException as error:
        if "--json" in arguments:
            from evenkeel.cli.output import print_json

            print_json({"error": {"cause": error.format_message(), "remedy": _where_to_read(error)}})
        error.show()  # type: ignore[attr-defined]
        return error.exit_code
    except typer.Abort:
        typer.echo("Aborted.", err=True)
        return 1
    return code if isinstance(code, int) else 0


def _where_to_read(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = "evenkeel" if context is None else context.command_path
    return f"see `{path} --help`"


def main() -> None:
    sys.exit(run(sys.argv[1:]))
