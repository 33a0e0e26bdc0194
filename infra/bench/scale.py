"""Plans one cluster in a process of its own and says what that took.

`python -m infra.bench.scale CLUSTER OBJECTIVE TOLERANCE OUT`
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from infra.bench.clusters import read_cluster
from infra.bench.given import PROJECT
from infra.bench.planning import bench_settings, make_plan, time_solver
from infra.bench.workroom import run_program

KIB = 1024


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """What such a process tells; its memory is the peak of all: reading, solving, certificate and assembly."""

    solve_s: float
    peak_rss_bytes: int
    steps: list[dict[str, Any]]


def plan_in_own_process(folder: Path, objective: str, tolerance: float) -> OwnProcess:
    """Start this module as a program and wait for it."""
    with TemporaryDirectory() as room:
        out = Path(room) / "answer.json"
        command = [sys.executable, "-m", "infra.bench.scale", folder, objective, repr(tolerance), out]
        run_program(command, f"planning {folder.name} in a process of its own", PROJECT)
        return OwnProcess(**json.loads(out.read_text()))


def peak_rss_bytes() -> int:
    """The most memory that this process ever had."""
    status = Path("/proc/self/status")
    if status.exists():
        # Unlike getrusage, this forgets the process that started this one.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * KIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else KIB)


def main(folder: str, objective: str, tolerance: str, out: str) -> None:
    cluster, settings = read_cluster(Path(folder)), bench_settings(objective, float(tolerance))
    solve_s = time_solver(cluster, settings)
    plan = make_plan(cluster, settings)
    answer = OwnProcess(solve_s, peak_rss_bytes(), plan.judged_steps())
    Path(out).write_text(json.dumps(asdict(answer)))


if __name__ == "__main__":
    main(*sys.argv[1:])
