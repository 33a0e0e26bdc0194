"""`evenkeel local up|down|status|env`: a cluster on this machine that runs until it is told to stop."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evenkeel.cli.lazy_group import CONTEXT_SETTINGS, PlainCommand
from evenkeel.cli.options import AsJson, command
from evenkeel.cli.output import escape, out, print_json, print_next, working
from evenkeel.local.background import BackgroundCluster
from evenkeel.local.real_pulsar.jars import DEFAULT_VERSION, require_version
from evenkeel.local.stack import FleetSize
from evenkeel.model.errors import RefusedError
from evenkeel.model.pulsar_versions import OLDEST_LINE, has_metadata_store_view, line_of, tell_tested

DEFAULT_BROKERS, DEFAULT_BUNDLES = 6, 96
DEFAULT_REAL_BROKERS, DEFAULT_REAL_BUNDLES = 3, 24
DEFAULT_HOME = Path(".evenkeel/local")


class LocalKind(StrEnum):
    """The kinds of cluster that can run here."""

    EXTENSIBLE = "extensible"
    MODULAR = "modular"
    EXTENSIBLE_SYSTEM_TOPIC = "extensible-system-topic"


REAL_ONLY = frozenset({LocalKind.EXTENSIBLE_SYSTEM_TOPIC})

Home = Annotated[
    Path,
    typer.Option("--home", envvar="EVENKEEL_LOCAL_HOME", metavar="FOLDER", help="Where the cluster keeps its files."),
]
Brokers = Annotated[
    int | None, typer.Option("--brokers", metavar="N", min=2, help="Number of brokers; default: 6, or 3 with --pulsar.")
]
Bundles = Annotated[
    int | None,
    typer.Option("--bundles", metavar="N", min=2, help="Number of bundles; default: 96, or 24 with --pulsar."),
]
Kind = Annotated[
    LocalKind, typer.Option("--load-manager", help="Pulsar's load manager; extensible-system-topic needs --pulsar.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed for the simulated traffic.")]
Pulsar = Annotated[bool, typer.Option("--pulsar", help="Start real Pulsar brokers and a bookie, not simulated ones.")]
PulsarVersion = Annotated[
    str | None,
    typer.Option("--pulsar-version", metavar="X.Y.Z", help=f"Version of the real brokers; default: {DEFAULT_VERSION}."),
]

app = typer.Typer(
    help="Run a small cluster on this machine.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=CONTEXT_SETTINGS,
)


@app.command(cls=PlainCommand, context_settings=CONTEXT_SETTINGS)
@command
def up(
    brokers: Brokers = None,
    bundles: Bundles = None,
    load_manager: Kind = LocalKind.EXTENSIBLE,
    seed: Seed = 1,
    pulsar: Pulsar = False,
    pulsar_version: PulsarVersion = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Start ZooKeeper and brokers; they run until `evenkeel local down`.

    Writes an evenkeel.toml that tells the other commands where the cluster is. Everything that an earlier local cluster
    left in the same folder is deleted, including its lake.
    """
    size = _choose_size(brokers, bundles, load_manager, seed, pulsar, pulsar_version)
    with working(f"starting ZooKeeper and {size.brokers} brokers"):
        state = BackgroundCluster(home).start(size)
    if as_json:
        print_json(state)
        return
    out.print(
        f"cluster [bold]{state['cluster']}[/] is up: {size.brokers} {load_manager} brokers, {size.bundles} bundles"
    )
    out.print(f"  ZooKeeper: {state['zookeeper']}")
    if pulsar:
        out.print(f"  clients connect to {state['service_url']}, namespace {state['namespace']}")
    out.print(f"  configuration: {escape(state['config'])}")
    typed = "" if home == DEFAULT_HOME else f" --home {shlex.quote(str(home))}"
    print_next(f'eval "$(evenkeel local env{typed})" && evenkeel snapshot')


@app.command(cls=PlainCommand, context_settings=CONTEXT_SETTINGS)
@command
def down(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Stop the cluster and all its processes; its files stay."""
    with working("stopping the cluster"):
        BackgroundCluster(home).stop()
    if as_json:
        print_json({"running": False})
    else:
        out.print("the local cluster has stopped")


@app.command(cls=PlainCommand, context_settings=CONTEXT_SETTINGS)
@command
def status(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Show whether the cluster is running, and where."""
    cluster = BackgroundCluster(home)
    running = cluster.is_serving()
    state = {"running": running} | (cluster.read_state() if running else {})
    if as_json:
        print_json(state)
    elif running:
        out.print(f"running: cluster {state['cluster']}, ZooKeeper at {escape(str(state['zookeeper']))}")
    else:
        out.print("not running")


@app.command(cls=PlainCommand, context_settings=CONTEXT_SETTINGS)
@command
def env(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Print a shell command that selects the cluster.

    Use it as: eval "$(evenkeel local env)"
    """
    cluster = BackgroundCluster(home)
    if not cluster.is_serving():
        raise RefusedError(f"no local cluster is running in {home}", "start one with `evenkeel local up`")
    variables = {"EVENKEEL_CONFIG": str(cluster.config_file)}
    if as_json:
        print_json(variables)
        return
    for name, value in variables.items():
        typer.echo(f"export {name}={shlex.quote(value)}")


def _choose_size(
    brokers: int | None, bundles: int | None, kind: LocalKind, seed: int, is_real: bool, version: str | None
) -> FleetSize:
    """The size that was asked for; real brokers need more of the machine, so the default is fewer of them."""
    if is_real:
        found = version or DEFAULT_VERSION
        _require_kind_of_version(kind, found)
        return FleetSize(brokers or DEFAULT_REAL_BROKERS, bundles or DEFAULT_REAL_BUNDLES, kind, seed, is_real, found)
    if kind in REAL_ONLY:
        raise RefusedError(f"simulated brokers cannot be {kind}", "add --pulsar for real ones")
    if version is not None:
        raise RefusedError("simulated brokers have no version to choose", "add --pulsar for real ones")
    return FleetSize(brokers or DEFAULT_BROKERS, bundles or DEFAULT_BUNDLES, kind, seed)


def _require_kind_of_version(kind: LocalKind, version: str) -> None:
    require_version(version)
    line = line_of(version)
    if line is None or line < OLDEST_LINE:
        raise RefusedError(f"Evenkeel does not support Pulsar {version}", f"tested are {tell_tested()}")
    if kind is LocalKind.EXTENSIBLE and not has_metadata_store_view(version):
        raise RefusedError(
            f"Pulsar {version} has no metadata-store table view",
            f"choose --load-manager {LocalKind.MODULAR} or {LocalKind.EXTENSIBLE_SYSTEM_TOPIC}",
        )
