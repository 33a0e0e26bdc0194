"""All commands of `evenkeel`, in the order in which an operator meets them."""

from __future__ import annotations

import typer

from evenkeel import __version__
from evenkeel.cli import by_hand, demo, diffs, draining, kill_switch, local, plans, runs, settings, snapshots
from evenkeel.cli.options import ZooKeeperSecurityFile, choose_security

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
    zookeeper_security: ZooKeeperSecurityFile = None,
) -> None:
    """Keep Apache Pulsar brokers on an even keel."""
    choose_security(zookeeper_security)


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
app.command("rollback")(by_hand.rollback)
app.command("runs")(runs.runs)
app.command("drain")(draining.drain)
app.command("move")(by_hand.move)
app.command("unload")(by_hand.unload)
app.command("split")(by_hand.split)
app.command("stop")(kill_switch.stop)
app.command("resume")(kill_switch.resume)
app.command("settings")(settings.settings)
