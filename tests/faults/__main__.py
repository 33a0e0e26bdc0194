"""`make faults N=1000 [SEED=0]`: run so many faults, print what became of them; 1 if an invariant was broken."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from faults.campaign import run_campaign
from faults.cases import case_of, parse_case
from faults.run import Result, to_json
from faults.tables import build_coverage, build_recovery
from support.waiting import SLOWNESS_VARIABLE, measure_slowness

WIDE = 240


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description="Run faults against the guarded writer.")
    parser.add_argument("--runs", type=int, default=100, help="how many seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--case", help="one run instead, as a violation names it")
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 2) * 2, help="runs at a time")
    parser.add_argument("--out", type=Path, help="also write each result there, a line of JSON")
    options = parser.parse_args()
    # The workers' deadlines are those of a busy machine, where it is one.
    os.environ.setdefault(SLOWNESS_VARIABLE, f"{measure_slowness(options.workers):.2f}")
    out = Console(highlight=False)
    started_s = time.monotonic()
    seeds = range(options.seed, options.seed + options.runs)
    cases = [parse_case(options.case)] if options.case else [case_of(seed) for seed in seeds]
    out.print(f"{len(cases)} runs, the first is {cases[0]}, {options.workers} at a time")
    told = 0
    if options.out is not None:
        options.out.write_text("")

    def tell(result: Result) -> None:
        nonlocal told
        told += 1
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(to_json(result)) + "\n")
        for violation in result.violations:
            where = f"{result.kind}, {result.manager}, {result.moment}"
            out.print(f"[red]case {result.case}[/] ({where}): {violation}", soft_wrap=True)
        if told % 50 == 0:
            out.print(f"{told} runs after {time.monotonic() - started_s:.0f} s")

    results = run_campaign(cases, options.workers, tell)
    out.print(build_recovery(results))
    # The table has a column a request, which no terminal would hold; a file or a pager does.
    Console(highlight=False, width=WIDE).print(build_coverage(results))
    broken = [result for result in results if result.violations]
    out.print(
        f"{len(results)} runs in {time.monotonic() - started_s:.0f} s, "
        f"{sum(len(result.violations) for result in results)} violations in {len(broken)} runs"
    )
    if broken:
        out.print(f"cases with violations: {', '.join(result.case for result in broken)}")
    return 1 if broken or len(results) != len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
