"""`make mutants [ARGS="word …"]`: make every mutant of the writer, and print what has caught it; 1 if one got away."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from faults.mutants import MUTANTS, Mutant
from faults.mutation import Hunt, MutantError, hunt
from faults.servers import SingleServer

WIDE = 200


def main() -> int:
    words = sys.argv[1:]
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.name for word in words)]
    out = Console(highlight=False, width=WIDE)
    out.print(f"{len(chosen)} mutants")
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="evenkeel-mutants-") as name:
        folder = Path(name)
        with SingleServer(folder / "zookeeper") as server, ThreadPoolExecutor(os.cpu_count()) as pool:

            def pursue(numbered: tuple[int, Mutant]) -> Hunt:
                number, mutant = numbered
                try:
                    found = hunt(mutant, folder / str(number), server.hosts, folder / "zookeeper")
                except MutantError as error:
                    found = Hunt(mutant, False, str(error), 0.0)
                if not found.is_caught:
                    out.print(f"[red]not caught[/]: {mutant.name}", found.evidence, soft_wrap=True, markup=False)
                return found

            hunts = list(pool.map(pursue, enumerate(chosen)))
    table = Table("mutant", "caught by")
    table.add_column("seconds", justify="right")
    for found in hunts:
        by = str(found.mutant.caught_by) if found.is_caught else "nothing"
        table.add_row(found.mutant.name, by, f"{found.seconds:.1f}")
    out.print(table)
    escaped = sum(not found.is_caught for found in hunts)
    out.print(f"{len(hunts) - escaped} of {len(hunts)} mutants caught in {time.monotonic() - started_s:.0f} s")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
