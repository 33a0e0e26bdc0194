"""Run a full cycle on real brokers of every supported version and kind: `make matrix`, or ARGS=--only=4.0.7:modular."""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from matrix.cycles import StoryRecord, run_cycle, supported_cycles, write_record

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "compatibility.json"


def main() -> int:
    known = {str(cycle): cycle for cycle in supported_cycles()}
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__)
    parser.add_argument("--only", choices=known, action="append", help="run this version and kind only; repeatable")
    parser.add_argument("--records", type=Path, default=RECORDS, help="where the records are kept")
    chosen = parser.parse_args()
    failed = False
    for name in chosen.only or known:
        with tempfile.TemporaryDirectory(prefix="evenkeel-matrix-", ignore_cleanup_errors=True) as home:
            stories = run_cycle(known[name], Path(home))
        write_record(chosen.records, known[name], stories, f"{datetime.now(UTC):%Y-%m-%d}")
        for story in stories:
            print(f"{name:36} {tell(story)}", flush=True)
        failed = failed or any(story.problem for story in stories)
    return int(failed)


def tell(record: StoryRecord) -> str:
    seen = record.traffic
    counts = (
        "no figures"
        if seen is None
        else f"{seen.sent:6} sent {seen.acknowledged:6} acknowledged {seen.received:6} received, "
        f"longest gap {seen.longest_gap_s:5.2f} s"
    )
    return f"{record.story:30} {'FAILED' if record.problem else 'ok':6} {counts} {record.problem}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
