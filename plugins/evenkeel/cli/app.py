"""All commands of `evenkeel`, in the order in which an operator meets them."""

from __future__ import annotations

import typer

from evenkeel import __version__
from evenkeel.cli import demo, diffs, local, plans, runs, settings, snapshots

app = typer.Typer(
    name="evenkeel",
    help="Keep Apache Pulsar brokers on an even keel: snapshot, plan, check, approve, apply, verify.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _evenkeel(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_print_version, is_eager=True),
) -> None:
    """Keep Apache Pulsar brokers on an even keel."""


app.command("demo")(demo.demo)
app.add_typer(local.app, name="local")
app.command("snapshot")(snapshots.snapshot)
app.command("import")(snapshots.import_)
app.command("plan")(plans.plan)
app.command("show")(plans.show)
app.command("diff")(diffs.diff)
app.command("check")(plans.check)
app.command("approve")(plans.approve)
app.command("apply")(runs.apply)
app.command("verify")(runs.verify)
app.command("settings")(settings.settings)
