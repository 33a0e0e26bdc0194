"""`evenkeel local up|down|status`: a cluster on this machine that stays until it is told to go."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from evenkeel.cli.local_stack import FleetSize, LocalStack, RealStack
from evenkeel.cli.options import AsJson
from evenkeel.cli.output import escape, out, print_json, reporting, working
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.model.errors import RefusedError, UnavailableError

START_DEADLINE_S = 150.0
# The first time Maven brings 250 MB of jars.
REAL_START_DEADLINE_S = 1_800.0
DEFAULT_BROKERS, DEFAULT_BUNDLES = 6, 96
DEFAULT_REAL_BROKERS, DEFAULT_REAL_BUNDLES = 3, 24
STOP_DEADLINE_S = 30.0
POLL_S = 0.1

app = typer.Typer(help="A ZooKeeper and brokers, simulated or real, on this machine.", no_args_is_help=True)

Home = Annotated[Path, typer.Option("--home", help="Where the cluster keeps its files.")]
DEFAULT_HOME = Path(".evenkeel/local")
Brokers = Annotated[int, typer.Option("--brokers", min=2, help="Simulated brokers.")]
Bundles = Annotated[int, typer.Option("--bundles", min=2, help="Bundles that they own.")]
Kind = Annotated[LoadManagerKind, typer.Option("--load-manager", help="extensible or modular.")]
AnyBrokers = Annotated[int | None, typer.Option("--brokers", min=2, help="Brokers; 6 simulated ones, or 3 real ones.")]
AnyBundles = Annotated[
    int | None, typer.Option("--bundles", min=2, help="Bundles that they own; 96, or 24 on real brokers.")
]
Pulsar = Annotated[bool, typer.Option("--pulsar", help="Real Pulsar brokers and a bookie instead of simulated ones.")]


class LocalKind(StrEnum):
    """The kinds of cluster that can be started here."""

    EXTENSIBLE = "extensible"
    MODULAR = "modular"
    EXTENSIBLE_SYSTEM_TOPIC = "extensible-system-topic"


AnyKind = Annotated[
    LocalKind, typer.Option("--load-manager", help="How ownership is kept; the last kind is Pulsar's only.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the traffic.")]


@app.command()
def up(
    brokers: AnyBrokers = None,
    bundles: AnyBundles = None,
    load_manager: AnyKind = LocalKind.EXTENSIBLE,
    seed: Seed = 1,
    pulsar: Pulsar = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """Start the cluster; it runs until `evenkeel local down`."""
    with reporting(as_json):
        if _is_running(home):
            raise RefusedError(f"a local cluster runs in {home}", "use it, or end it with `evenkeel local down`")
        size = _size(brokers, bundles, load_manager, seed, pulsar)
        _clear(home)
        with working(f"starting ZooKeeper and {size.brokers} brokers"):
            state = _start(home, size)
        if as_json:
            print_json(state)
            return
        told = f"{size.brokers} {load_manager} brokers, {size.bundles} bundles"
        out.print(f"cluster [bold]{state['cluster']}[/] is up: {told}")
        out.print(f"  ZooKeeper at {state['zookeeper']}")
        if pulsar:
            out.print(f"  clients connect to {state['service_url']}, namespace {state['namespace']}")
        where = f"--zookeeper {state['zookeeper']} --cluster {state['cluster']}"
        out.print(f"  try: evenkeel snapshot {where} --lake .evenkeel/lake")


@app.command()
def down(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """End the cluster and everything that belongs to it."""
    with reporting(as_json):
        if not _is_running(home):
            raise RefusedError(f"no local cluster runs in {home}", "start one with `evenkeel local up`")
        if not _state_file(home).exists():
            raise RefusedError(f"the local cluster in {home} is still starting", "try again in a moment")
        os.kill(_read_state(home)["pid"], signal.SIGTERM)
        with working("ending the cluster"):
            _wait(lambda: not _is_running(home), STOP_DEADLINE_S, f"the cluster in {home} did not end")
        if as_json:
            print_json({"running": False})
        else:
            out.print("the local cluster has ended")


@app.command()
def status(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """Say whether the cluster runs, and where."""
    with reporting(as_json):
        running = _is_running(home) and _state_file(home).exists()
        state = {"running": running} | (_read_state(home) if running else {})
        if as_json:
            print_json(state)
        elif running:
            out.print(f"running: cluster {state['cluster']}, ZooKeeper at {escape(str(state['zookeeper']))}")
        else:
            out.print("not running")


def serve(home: Path, size: FleetSize) -> None:
    """Run the cluster in this process until it is told to end; the lock tells others that it lives."""
    ended = False

    def end(*_: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    with _locked(home), RealStack(home, size) if size.is_real else LocalStack(home, size) as stack:
        state = asdict(size) | {
            "pid": os.getpid(),
            "zookeeper": stack.connection.zookeeper,
            "cluster": stack.connection.cluster,
            **stack.addresses,
        }
        temporary = _state_file(home).with_suffix(".new")
        temporary.write_text(json.dumps(state))
        temporary.rename(_state_file(home))
        while not ended:
            time.sleep(POLL_S)


def _size(brokers: int | None, bundles: int | None, kind: LocalKind, seed: int, is_real: bool) -> FleetSize:
    """The size that was asked for; real brokers are heavier, so there are fewer of them by default."""
    if is_real:
        return FleetSize(brokers or DEFAULT_REAL_BROKERS, bundles or DEFAULT_REAL_BUNDLES, kind, seed, is_real)
    if kind not in {simulated.value for simulated in LoadManagerKind}:
        raise RefusedError(f"simulated brokers are never of the kind {kind}", "add --pulsar for real ones")
    return FleetSize(brokers or DEFAULT_BROKERS, bundles or DEFAULT_BUNDLES, kind, seed)


def _clear(home: Path) -> None:
    """Make an empty folder of what an earlier cluster left; a folder of anybody else's is not touched."""
    if home.exists() and any(home.iterdir()) and not (home / "lock").exists():
        raise RefusedError(f"{home} is not empty and not of a local cluster", "give another --home")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)


def _start(home: Path, size: FleetSize) -> dict[str, Any]:
    arguments = json.dumps({"home": str(home.resolve()), "size": asdict(size)})
    with open(home / "stack.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "evenkeel.cli.local", arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def is_settled() -> bool:
        return _state_file(home).exists() or process.poll() is not None

    try:
        deadline_s = REAL_START_DEADLINE_S if size.is_real else START_DEADLINE_S
        _wait(is_settled, deadline_s, f"the cluster in {home} did not start")
    except UnavailableError:
        process.terminate()
        raise
    if not _state_file(home).exists():
        raise UnavailableError(f"the cluster in {home} ended while it started", f"read {home / 'stack.log'}")
    return _read_state(home)


def _wait(is_done: Callable[[], bool], deadline_s: float, complaint: str) -> None:
    end_s = time.monotonic() + deadline_s
    while not is_done():
        if time.monotonic() > end_s:
            raise UnavailableError(f"{complaint} within {deadline_s:.0f} s", "look at its log files")
        time.sleep(POLL_S)


def _state_file(home: Path) -> Path:
    return home / "state.json"


def _read_state(home: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(_state_file(home).read_text())
    return state


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _is_running(home: Path) -> bool:
    """Whether a living process holds the lock; a process id alone may belong to somebody else by now."""
    if not (home / "lock").exists():
        return False
    try:
        with _locked(home):
            return False
    except BlockingIOError:
        return True


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    serve(Path(given["home"]), FleetSize(**given["size"]))
