"""A cluster in plain files after some of its bundles were split, for a judge that does not carry splits out."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping
from pathlib import Path

from evenkeel.planning.splitting.splits import children_of

RATES = ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")
COUNTS = ("topics", "producers", "consumers")


def divide_bundles(folder: Path, boundaries: Mapping[str, int], target: Path) -> None:
    """Write the cluster of a folder with two children for each of these bundles.

    The files know no topics, so that each child gets a half, as the planner reckons; the upper one what is odd.
    """
    for name in ("brokers.csv", "policies.json"):
        shutil.copyfile(folder / name, target / name)
    with (folder / "bundles.csv").open(newline="") as given, (target / "bundles.csv").open("w", newline="") as made:
        rows = csv.DictReader(given)
        writer = csv.DictWriter(made, rows.fieldnames or ())
        writer.writeheader()
        for row in rows:
            boundary = boundaries.get(row["bundle"])
            writer.writerows([row] if boundary is None else _divide(row, boundary))


def _divide(row: Mapping[str, str], boundary: int) -> list[dict[str, str]]:
    lower, upper = children_of(row["bundle"], boundary)
    halves = {name: repr(float(row[name]) / 2) for name in RATES}
    lower_counts = {name: str(int(row[name]) // 2) for name in COUNTS}
    upper_counts = {name: str(int(row[name]) - int(row[name]) // 2) for name in COUNTS}
    return [{**row, **halves, "bundle": lower, **lower_counts}, {**row, **halves, "bundle": upper, **upper_counts}]
