"""Measure how fast plans are applied: `python -m benchmarks.apply`, or `make bench-apply`.

A fleet of simulated brokers hands bundles over without delay. In each round the guarded writer moves bundles to the
next broker, and a bare loop of compare-and-set writes moves them back with as many in flight. Both are timed from their
first write until they have seen the last new owner. The server counts the requests.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from kazoo.client import KazooClient
from rich.console import Console
from rich.table import Table

from benchmarks.apply.bare_loop import BareLoop
from benchmarks.apply.plans import store_plan
from benchmarks.apply.server_counts import RequestCounter
from evenkeel.adapters.approval_policy import ApprovalPolicy
from evenkeel.adapters.lake.store import Lake
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.local.supervised import SupervisedProcess
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError, RefusedError, UnavailableError
from evenkeel.model.run import StepResult, StepState
from evenkeel.model.settings import Settings
from evenkeel.stages.apply import apply_plan

LEAST_RATIO = 0.7
MOST_REQUESTS_PER_STEP = 8.0
CLUSTER = "fleet"
BROKERS = 5
"""Fewer than six: from there on the fleet reserves a broker for one namespace."""
SPARE_BUNDLES = 40
READY_TIMEOUT_S = 120.0
POLL_S = 0.1
MILLISECONDS = 1_000.0


@dataclass(frozen=True, slots=True)
class Round:
    """One round of both."""

    steps: int
    guarded_s: float
    guarded_whole_s: float
    bare_s: float
    guarded_requests: int
    bare_requests: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All rounds together, compared with the targets."""

    rounds: tuple[Round, ...]
    in_flight: int
    wave_steps: int

    @property
    def steps(self) -> int:
        return sum(each.steps for each in self.rounds)

    @property
    def guarded_moves_per_s(self) -> float:
        return self.steps / sum(each.guarded_s for each in self.rounds)

    @property
    def bare_moves_per_s(self) -> float:
        return self.steps / sum(each.bare_s for each in self.rounds)

    @property
    def ratio(self) -> float:
        return self.guarded_moves_per_s / self.bare_moves_per_s

    @property
    def requests_per_step(self) -> float:
        return sum(each.guarded_requests for each in self.rounds) / self.steps

    @property
    def bare_requests_per_step(self) -> float:
        return sum(each.bare_requests for each in self.rounds) / self.steps

    @property
    def is_met(self) -> bool:
        return self.ratio >= LEAST_RATIO and self.requests_per_step <= MOST_REQUESTS_PER_STEP

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {
            "steps": self.steps,
            "guarded_moves_per_s": round(self.guarded_moves_per_s, 2),
            "bare_moves_per_s": round(self.bare_moves_per_s, 2),
            "ratio": round(self.ratio, 4),
            "requests_per_step": round(self.requests_per_step, 3),
            "bare_requests_per_step": round(self.bare_requests_per_step, 3),
            "targets": {"ratio": LEAST_RATIO, "requests_per_step": MOST_REQUESTS_PER_STEP},
            "is_met": self.is_met,
        }


def main(
    steps: Annotated[int, typer.Option(min=1, help="Moves of each in every round.")] = 240,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds.")] = 3,
    in_flight: Annotated[int, typer.Option(min=1, help="Moves in flight at a time, for both.")] = 32,
    wave_steps: Annotated[int | None, typer.Option(help="Steps in a wave after the canary. Default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON document.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON document to this file.")] = None,
) -> None:
    """Apply plans with and without guards. Exit code 1: the guarded writer is too slow or sends too many requests."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        with running_fleet(steps + SPARE_BUNDLES) as (hosts, folder):
            results = [_run_round(hosts, folder, steps, in_flight, wave_steps or steps) for _ in range(rounds)]
    except EvenkeelError as error:
        sys.stderr.write(f"error: {error}\n")
        raise typer.Exit(1) from error
    figures = Figures(tuple(results), in_flight, wave_steps or steps)
    document = json.dumps(figures.to_json(), indent=1)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(document + "\n")
    if as_json:
        typer.echo(document)
    else:
        _print(figures)
    raise typer.Exit(0 if figures.is_met else 1)


@contextmanager
def running_fleet(bundles: int, report_interval_s: float = 60.0) -> Iterator[tuple[str, Path]]:
    """Start ZooKeeper, and a fleet in a separate process; yields the hosts and a folder for the lake."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenkeel-bench-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(folder / "zookeeper"))
        ready = folder / "ready.json"
        options = {
            "zookeeper": zookeeper.connect_string,
            "ready-file": ready,
            "cluster": CLUSTER,
            "brokers": BROKERS,
            "bundles": bundles,
            "hand-over-delay-s": 0,
            "session-timeout-s": 60,
            "report-interval-s": report_interval_s,
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        command = [sys.executable, "-m", "evenkeel.fleet", *arguments]
        fleet = stack.enter_context(SupervisedProcess(command, folder / "fleet.log"))
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while not ready.exists():
            if fleet.poll() is not None or time.monotonic() > deadline_s:
                raise UnavailableError("the fleet did not start", f"read {fleet.log_path}")
            time.sleep(POLL_S)
        yield zookeeper.connect_string, folder


def _run_round(hosts: str, folder: Path, steps: int, in_flight: int, wave_steps: int) -> Round:
    """Move bundles to the next broker with guards, and back without."""
    lake = Lake(str(folder / "lake"))
    connection = ClusterConnection(CLUSTER, hosts)
    settings = Settings(in_flight_steps=in_flight)
    plan_id, planned = store_plan(lake, connection, settings, steps, wave_steps)
    ended_s = 0.0
    settled = 0

    with RequestCounter(hosts) as guarded_counter:

        def see(result: StepResult) -> None:
            nonlocal ended_s, settled
            ended_s = time.time()
            settled += result.state is StepState.SETTLED
            if settled == steps:
                guarded_counter.poll()

        whole_s = time.monotonic()
        run = apply_plan(lake, plan_id, connection, settings, on_progress=see, approvals=ApprovalPolicy.unsigned())
        whole_s = time.monotonic() - whole_s
    if run.count(StepState.SETTLED) != steps:
        raise RefusedError(
            f"only {run.count(StepState.SETTLED)} of {steps} steps settled ({run.detail})", "run the bench again"
        )
    guarded_s = ended_s - _first_write_s(hosts, connection, plan_id)
    loop = BareLoop(hosts, connection.pulsar_root, in_flight)
    bare_s = loop.move({step.bundle: step.source for step in planned})
    return Round(steps, guarded_s, whole_s, bare_s, guarded_counter.total, loop.requests)


def _first_write_s(hosts: str, connection: ClusterConnection, plan_id: str) -> float:
    """When the server committed the first step: the creation time of its journal entry."""
    client = KazooClient(hosts)
    client.start()
    try:
        base = f"{connection.home}/plans/{plan_id}/steps"
        times_ms = [float(client.exists(f"{base}/{name}").ctime) for name in client.get_children(base)]
        return min(times_ms) / MILLISECONDS
    finally:
        client.stop()
        client.close()


def _print(figures: Figures) -> None:
    out = Console(highlight=False)
    table = Table("round", title=f"{figures.in_flight} in flight, hand-over delay 0")
    for name in ("steps", "guarded moves/s", "bare moves/s", "ratio", "guarded requests/step", "bare requests/step"):
        table.add_column(name, justify="right")
    for number, each in enumerate(figures.rounds, start=1):
        one = Figures((each,), figures.in_flight, figures.wave_steps)
        table.add_row(str(number), *_cells(one))
    table.add_section()
    table.add_row("all", *_cells(figures))
    out.print(table)
    out.print("Requests: packets that the server received on the writer's connections (`cons`); a multi counts as one.")
    verdict = "met" if figures.is_met else "missed"
    out.print(f"Targets {verdict}: ratio at least {LEAST_RATIO}, at most {MOST_REQUESTS_PER_STEP:g} requests per step.")


def _cells(figures: Figures) -> list[str]:
    return [
        str(figures.steps),
        f"{figures.guarded_moves_per_s:.1f}",
        f"{figures.bare_moves_per_s:.1f}",
        f"{figures.ratio:.2f}",
        f"{figures.requests_per_step:.2f}",
        f"{figures.bare_requests_per_step:.2f}",
    ]


if __name__ == "__main__":
    typer.run(main)
