"""Measure how good the plans are: `python -m benchmarks.plan`, or `make bench-plan`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.plan.cache import Cache
from benchmarks.plan.cases import LARGE, SCENARIOS, SEEDS, SMALL, Size
from benchmarks.plan.judging import OWN_GENERATOR, OWN_JUDGE, Judge, require_program
from benchmarks.plan.planning import PROJECT
from benchmarks.plan.pulsar import MOST_CYCLES, PulsarShedders
from benchmarks.plan.records import Findings
from benchmarks.plan.run import TOLERANCE, Bench, Progress, Scope
from benchmarks.plan.tables import print_results
from benchmarks.plan.targets import Results, to_json
from evenkeel import __version__
from evenkeel.model.errors import EvenkeelError

DEFAULT_WORK = PROJECT / ".evenkeel" / "bench"
TABLE_WIDTH = 100


def main(
    scenario: Annotated[list[str] | None, typer.Option(help="Scenario; repeatable. Default: all six.")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Brokers x bundles. Default: 30x3000 and 200x40000.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seed of the generator. Default: 1, 2, 3.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="30x3000 and seed 1 only.")] = False,
    generator: Annotated[Path, typer.Option(help="Another program that generates clusters.")] = OWN_GENERATOR,
    judge: Annotated[Path, typer.Option(help="Another program that judges plans.")] = OWN_JUDGE,
    jars: Annotated[Path | None, typer.Option(help="Folder with Pulsar's jars. Default: Maven downloads them.")] = None,
    work: Annotated[Path, typer.Option(help="Where to keep clusters, jars and results.")] = DEFAULT_WORK,
    out: Annotated[Path | None, typer.Option(help="The JSON document. Default: plan.json in the work folder.")] = None,
    without_pulsar: Annotated[bool, typer.Option("--without-pulsar", help="Do not run Pulsar's shedders.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute everything again.")] = False,
    timing: Annotated[bool, typer.Option(help="Time the planner at 200x40000 against AvgShedder.")] = True,
    scale: Annotated[bool | None, typer.Option(help="Plan 1000x1000000. Default: only in a full run.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many judges, and how many shedders, run at a time.")] = max(
        (os.cpu_count() or 2) // 2, 1
    ),
) -> None:
    """Plan synthetic clusters, judge the plans, and compare them with the targets. Exit code 1: a target was missed."""
    is_full = not (scenario or size or seed or quick)
    scope = Scope(
        scenarios=_known_scenarios(scenario or SCENARIOS),
        sizes=tuple(_parse_size(text) for text in size) if size else (SMALL,) if quick else (SMALL, LARGE),
        seeds=tuple(seed) if seed else (SEEDS[0],) if quick else SEEDS,
        with_timing=timing,
        with_scale=is_full if scale is None else scale,
    )
    errors = Console(stderr=True, highlight=False)
    cache = Cache(work.resolve(), fresh)
    try:
        generator, judge = require_program(generator, "--generator"), require_program(judge, "--judge")
        pulsar = None if without_pulsar else PulsarShedders(cache, jars)
        bench = Bench(scope, generator, Judge(judge, cache), pulsar, jobs)
        with Progress(errors, bench.pieces) as progress:
            findings = bench.run(progress)
    except EvenkeelError as error:
        errors.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    run = {
        "version": __version__,
        "tolerance": TOLERANCE,
        "generator_sha256": cache.digest_of(generator),
        "judge_sha256": cache.digest_of(judge),
        "pulsar_cycles": None if without_pulsar else MOST_CYCLES,
        "from_earlier_runs": dict(cache.reused),
    }
    is_met = _report(findings, run, out or work / "plan.json")
    raise typer.Exit(0 if is_met else 1)


def _report(findings: Findings, run: dict[str, Any], out: Path) -> bool:
    """Write the document, print the tables, and return whether every target was met."""
    results = Results.of(findings)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(to_json(findings, results, run), indent=1, allow_nan=False) + "\n")
    console = Console(width=TABLE_WIDTH, highlight=False, markup=False)
    print_results(results, console)
    reused = ", ".join(f"{count} {kind}" for kind, count in run["from_earlier_runs"].items())
    console.print(f"Taken from earlier runs: {reused or 'nothing'}. Written to {out}.", soft_wrap=True)
    return results.is_met


def _known_scenarios(names: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in SCENARIOS:
            raise typer.BadParameter(f"{name!r} is not a scenario: choose from {', '.join(SCENARIOS)}")
    return tuple(names)


def _parse_size(text: str) -> Size:
    try:
        return Size.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


if __name__ == "__main__":
    typer.run(main)
