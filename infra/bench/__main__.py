"""Measure how good the plans are: `python -m infra.bench`, or `make bench-plan`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from evenkeel import __version__
from evenkeel.model.errors import EvenkeelError
from infra.bench.cases import LARGE, SCENARIOS, SEEDS, SMALL, Size
from infra.bench.given import DEFAULT_PEER, PROJECT, find_programs
from infra.bench.narrator import Narrator
from infra.bench.pulsar import MOST_CYCLES, PulsarShedders
from infra.bench.results import Findings, Results, to_json
from infra.bench.run import TOLERANCE, Bench, Scope
from infra.bench.tables import print_results
from infra.bench.workroom import Workroom

DEFAULT_WORK = PROJECT / ".evenkeel" / "bench"
TABLE_WIDTH = 100


def main(
    scenario: Annotated[list[str] | None, typer.Option(help="A scenario; may be given again; else all six.")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Brokers x bundles; else 30x3000 and 200x40000.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="A seed of the generator; else 1, 2, 3.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="30x3000 and seed 1 only.")] = False,
    peer: Annotated[Path, typer.Option(help="Folder of generator, judge and PulsarShedders.java.")] = DEFAULT_PEER,
    jars: Annotated[Path | None, typer.Option(help="Folder with Pulsar's jars; else Maven brings them.")] = None,
    work: Annotated[Path, typer.Option(help="Where clusters, jars and answers are kept.")] = DEFAULT_WORK,
    out: Annotated[Path | None, typer.Option(help="The JSON document; else plan.json in the work folder.")] = None,
    without_pulsar: Annotated[bool, typer.Option("--without-pulsar", help="Leave Pulsar's columns out.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Take no answer of an earlier run.")] = False,
    timing: Annotated[bool, typer.Option(help="Time the planner at 200x40000 against AvgShedder.")] = True,
    scale: Annotated[bool | None, typer.Option(help="Plan 1000x1000000, as a full run does.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Judges, and shedders, at a time.")] = max(
        (os.cpu_count() or 2) // 2, 1
    ),
) -> None:
    """Plan generated clusters, have them judged, and hold the figures against their targets; 1 if one is missed."""
    is_full = not (scenario or size or seed or quick)
    scope = Scope(
        scenarios=_known_scenarios(scenario or SCENARIOS),
        sizes=tuple(_parse_size(text) for text in size) if size else (SMALL,) if quick else (SMALL, LARGE),
        seeds=tuple(seed) if seed else (SEEDS[0],) if quick else SEEDS,
        with_timing=timing,
        with_scale=is_full if scale is None else scale,
    )
    errors = Console(stderr=True, highlight=False)
    workroom = Workroom(work, fresh)
    try:
        programs = find_programs(peer, with_pulsar=not without_pulsar)
        pulsar = None if without_pulsar else PulsarShedders(programs, workroom, jars)
        bench = Bench(scope, programs, workroom, pulsar, jobs)
        with Narrator(errors, bench.pieces) as narrator:
            findings = bench.run(narrator)
    except EvenkeelError as error:
        errors.print(f"error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    run = {
        "version": __version__,
        "tolerance": TOLERANCE,
        "generator_sha256": workroom.digest_of(programs.generator),
        "judge_sha256": workroom.digest_of(programs.judge),
        "pulsar_cycles": None if without_pulsar else MOST_CYCLES,
        "from_earlier_runs": dict(workroom.reused),
    }
    is_met = _report(findings, run, out or work / "plan.json")
    raise typer.Exit(0 if is_met else 1)


def _report(findings: Findings, run: dict[str, Any], out: Path) -> bool:
    """Write the document, print the tables, and say whether every target was met."""
    results = Results.of(findings)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(to_json(findings, results, run), indent=1, allow_nan=False) + "\n")
    console = Console(width=TABLE_WIDTH, highlight=False, markup=False)
    print_results(results, console)
    reused = ", ".join(f"{count} {kind}" for kind, count in run["from_earlier_runs"].items())
    console.print(f"From earlier runs: {reused or 'nothing'}. Written to {out}.", soft_wrap=True)
    return results.is_met


def _known_scenarios(names: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in SCENARIOS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(SCENARIOS)}")
    return tuple(names)


def _parse_size(text: str) -> Size:
    try:
        return Size.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


if __name__ == "__main__":
    typer.run(main)
