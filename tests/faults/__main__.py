"""`make faults N=1000 [SEED=0]`: run so many faults, print what became of them; 1 if an invariant was broken."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from faults.campaign import run_campaign
from faults.kinds import KINDS
from faults.run import Result, to_json


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description="Run faults against the guarded writer.")
    parser.add_argument("--runs", type=int, default=100, help="how many seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 2) * 2, help="runs at a time")
    parser.add_argument("--out", type=Path, help="also write each result there, a line of JSON")
    options = parser.parse_args()
    out = Console(highlight=False)
    started_s = time.monotonic()
    last = options.seed + options.runs - 1
    out.print(f"{options.runs} runs, seeds {options.seed} to {last}, {options.workers} at a time")
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
            out.print(f"[red]seed {result.seed}[/] ({result.kind}, {result.moment}): {violation}", soft_wrap=True)
        if told % 50 == 0:
            out.print(f"{told} runs after {time.monotonic() - started_s:.0f} s")

    results = run_campaign(range(options.seed, options.seed + options.runs), options.workers, tell)
    _print_table(out, results)
    broken = [result for result in results if result.violations]
    out.print(
        f"{len(results)} runs in {time.monotonic() - started_s:.0f} s, "
        f"{sum(len(result.violations) for result in results)} violations in {len(broken)} runs"
    )
    if broken:
        out.print(f"seeds with violations: {', '.join(str(result.seed) for result in broken)}")
    return 1 if broken or len(results) != options.runs else 0


def _print_table(out: Console, results: Sequence[Result]) -> None:
    table = Table("fault", title="recovery in step times")
    for name in ("runs", "struck", "resumed", "violations", "recovery p50", "p99"):
        table.add_column(name, justify="right")
    for kind in KINDS:
        _add_row(table, kind.name, [result for result in results if result.kind == kind.name])
    table.add_section()
    _add_row(table, "all", list(results))
    out.print(table)


def _add_row(table: Table, name: str, results: Sequence[Result]) -> None:
    times = sorted(steps for result in results if (steps := result.recovery_steps) is not None)
    table.add_row(
        name,
        str(len(results)),
        str(sum(result.has_fired for result in results)),
        str(sum(result.resumes > 0 for result in results)),
        str(sum(len(result.violations) for result in results)),
        _percentile(times, 0.5),
        _percentile(times, 0.99),
    )


def _percentile(times: Sequence[float], share: float) -> str:
    return f"{times[min(math.ceil(share * len(times)), len(times)) - 1]:.1f}" if times else "–"


if __name__ == "__main__":
    sys.exit(main())
