"""Write docs/reference from the code, so that what it says is what runs: `python infra/docs/generate.py [FOLDER]`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from evenkeel.model.load import BundleProfile, CpuCalibration, HourlyPeak, SplitCandidate
from evenkeel.model.plan import PLAN_TABLES
from evenkeel.model.settings import describe_settings
from evenkeel.model.snapshot import SNAPSHOT_TABLES
from evenkeel.model.tables import columns_of

TABLES: Mapping[str, Mapping[str, type]] = {
    "Snapshot": SNAPSHOT_TABLES,
    "Profile and candidates": {
        "bundle_profiles": BundleProfile,
        "hourly_peaks": HourlyPeak,
        "cpu_calibration": CpuCalibration,
        "split_candidates": SplitCandidate,
    },
    "Plan": PLAN_TABLES,
}


def settings_page() -> str:
    rows = [f"| `{each.key}` | `{each.default!r}` | {each.meaning} |" for each in describe_settings()]
    head = [
        "# Settings",
        "",
        "One TOML file, given by `--settings`.",
        "",
        "| Key | Default | Meaning |",
        "|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"


def tables_page() -> str:
    lines = [
        "# Tables",
        "",
        "Columns of everything that is stored as Parquet. Times are UTC; the unit is the name's end.",
    ]
    for group, tables in TABLES.items():
        lines += ["", f"## {group}"]
        for name, table in tables.items():
            lines += ["", f"### `{name}`", "", "| Column | Type | Meaning |", "|---|---|---|"]
            for column in columns_of(table):
                null = " or null" if column.nullable else ""
                lines.append(f"| `{column.name}` | {column.type.__name__}{null} | {column.comment} |")
    return "\n".join(lines) + "\n"


PAGES = {"settings.md": settings_page, "tables.md": tables_page}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / "docs" / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page())
