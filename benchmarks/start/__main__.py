"""Measure how long commands take: `python -m benchmarks.start`, or `make bench-start`.

Every figure is the wall-clock time of a whole process, the median of several rounds. In each round a bare PySpark
program reads the tables of the imported snapshot and writes one; `plan`, `check` and `move` are held against it, and
`--help` against a Python that does nothing. `move` runs on a fleet of simulated brokers that hand over without delay; a
run of the same command that is refused after the look-up of its names is shown beside it, because the rest of `move` is
mostly waiting for the brokers: for the hand-over, and for load reports after it.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.apply.__main__ import CLUSTER, running_fleet
from benchmarks.start import bare_spark
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake

EVENKEEL = Path(sys.executable).with_name("evenkeel")
GENERATOR = Path(__file__).resolve().parents[1] / "clusters" / "generate.py"
IMPORTED = "skew"
BROKERS, BUNDLES, SEED = 20, 960, 1
FLEET_BUNDLES = 40
REPORT_INTERVAL_S = 0.2
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Target:
    """What a command may take: so many times the sum of some bare programs."""

    command: str
    limit: float
    against: tuple[str, ...]


TARGETS = (
    Target("plan", 2.5, ("bare spark",)),
    Target("move", 1.0, ("bare spark",)),
    Target("check", 1.0, ("bare spark",)),
    # Four times an idle Python, plus what importing typer takes.
    Target("help", 1.0, ("4 x python", "import typer")),
)


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the medians count.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON document.")] = False,
) -> None:
    """Time the commands. Exit code 1: one of them takes longer than it may."""
    seconds: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="evenkeel-start-") as scratch:
        folder = Path(scratch)
        lake = import_cluster(folder)
        with running_fleet(FLEET_BUNDLES, REPORT_INTERVAL_S) as (hosts, _):
            # The first round only fills caches: the disk's, and Python's compiled modules.
            for number in range(rounds + 1):
                measured = run_round(folder / str(number), lake, hosts)
                for name, taken_s in measured.items() if number else ():
                    seconds[name].append(taken_s)
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    medians["4 x python"] = 4 * medians["python"]
    medians["import typer"] = medians["python with typer"] - medians["python"]
    ratios = {target.command: ratio_of(target, medians) for target in TARGETS}
    is_met = all(ratios[target.command] <= target.limit for target in TARGETS)
    if as_json:
        typer.echo(json.dumps({"seconds": medians, "ratios": ratios, "is_met": is_met}, indent=1))
    else:
        _print(medians, ratios)
    raise typer.Exit(0 if is_met else 1)


def ratio_of(target: Target, medians: Mapping[str, float]) -> float:
    """A command's time against what it is measured by."""
    return medians[target.command] / sum(medians[name] for name in target.against)


def import_cluster(folder: Path) -> Path:
    """Import a generated cluster into a lake."""
    files, lake = folder / "cluster", folder / "lake"
    timed([sys.executable, GENERATOR, IMPORTED, BROKERS, BUNDLES, SEED, files])
    described = ["--brokers", files / "brokers.csv", "--bundles", files / "bundles.csv"]
    timed([EVENKEEL, "import", *described, "--cluster", IMPORTED, "--lake", lake, "--taken-at", "2026-01-01T00:00:00Z"])
    return lake


def run_round(folder: Path, imported: Path, hosts: str) -> dict[str, float]:
    """Time every command once, each in the state in which a user would run it first."""
    lake = folder / "lake"
    shutil.copytree(imported, lake)
    where = ["--lake", lake]
    seconds = {"bare spark": timed([sys.executable, bare_spark.__file__, folder / "table", *tables_of(lake)])}
    taken_s, output = timed_output([EVENKEEL, "plan", *where, "--cluster", IMPORTED, "--json"], folder)
    seconds["plan"] = taken_s
    seconds["check"] = timed([EVENKEEL, "check", json.loads(output)["plan_id"], *where, "--json"], folder)
    bundle, destination = choose_move(lake, hosts, folder)
    # Nobody has to sign for a fleet that lasts for a minute.
    (folder / "evenkeel.toml").write_text("[approval]\nunsigned = true\n")
    fleet = ["--zookeeper", hosts, "--cluster", CLUSTER, *where, "--yes", "--json"]
    seconds["move"] = timed([EVENKEEL, "move", bundle, "--to", destination, *fleet], folder)
    refused = [EVENKEEL, "move", bundle, "--to", "nobody:8080", *fleet]
    seconds["move, refused"] = timed(refused, folder, expected_code=1)
    seconds["help"] = timed([EVENKEEL, "--help"])
    seconds["python"] = timed([sys.executable, "-c", "pass"])
    seconds["python with typer"] = timed([sys.executable, "-c", "import typer"])
    return seconds


def tables_of(lake: Path) -> list[Path]:
    """The files of the imported snapshot."""
    manifest = SnapshotStore(Lake(str(lake))).load(IMPORTED)
    return [lake / table.path for table in manifest.tables.values()]


def choose_move(lake: Path, hosts: str, folder: Path) -> tuple[str, str]:
    """A bundle of the fleet, and a broker that does not own it."""
    timed([EVENKEEL, "snapshot", "--zookeeper", hosts, "--cluster", CLUSTER, "--lake", lake], folder)
    store = SnapshotStore(Lake(str(lake)))
    manifest = store.load(CLUSTER)
    brokers = store.read_table(manifest, "brokers")["broker_id"].to_pylist()
    bundles = store.read_table(manifest, "bundles").select(["bundle", "namespace", "owner"]).to_pylist()
    chosen = next(row for row in bundles if row["owner"] in brokers and not row["namespace"].startswith("pulsar/"))
    return chosen["bundle"], next(broker for broker in brokers if broker != chosen["owner"])


def timed(command: Sequence[object], folder: Path | None = None, expected_code: int = 0) -> float:
    """The seconds that a command takes from its start to its end."""
    return timed_output(command, folder, expected_code)[0]


def timed_output(command: Sequence[object], folder: Path | None = None, expected_code: int = 0) -> tuple[float, str]:
    """The seconds that a command takes, and what it prints."""
    # Compiled modules are kept, as on any user's machine.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started_s = time.monotonic()
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=folder, env=environment, timeout=TIMEOUT_S
    )
    taken_s = time.monotonic() - started_s
    if done.returncode != expected_code:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return taken_s, done.stdout


def _print(medians: Mapping[str, float], ratios: Mapping[str, float]) -> None:
    out = Console(highlight=False)
    table = Table("program", title=f"{BROKERS} brokers, {BUNDLES} bundles, local[*]; medians")
    table.add_column("seconds", justify="right")
    for name, taken_s in medians.items():
        table.add_row(name, f"{taken_s:.2f}")
    out.print(table)
    for target in TARGETS:
        ratio, against = ratios[target.command], " + ".join(target.against)
        verdict = "met" if ratio <= target.limit else "missed"
        out.print(f"{target.command}: {ratio:.2f} x ({against}), at most {target.limit:g}: {verdict}")


if __name__ == "__main__":
    typer.run(main)
