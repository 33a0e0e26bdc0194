"""Write docs/reference from the code, so that what it says is what runs: `python docs/generate.py [FOLDER]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenkeel.cli.settings import format_default
from evenkeel.model.audit import AUDIT_TABLES
from evenkeel.model.load import BundleProfile, CpuCalibration, HandOverTime, HourlyPeak, SplitCandidate
from evenkeel.model.metrics import AUDIT_METRICS, PLAN_METRICS, RUN_METRICS
from evenkeel.model.plan import PLAN_TABLES
from evenkeel.model.pulsar_versions import TESTED, has_metadata_store_view
from evenkeel.model.setting_fields import SettingUse
from evenkeel.model.settings import describe_settings
from evenkeel.model.snapshot import SNAPSHOT_TABLES
from evenkeel.model.tables import columns_of

TABLES: Mapping[str, Mapping[str, type]] = {
    "Snapshot": SNAPSHOT_TABLES,
    "Profile and candidates": {
        "bundle_profiles": BundleProfile,
        "hourly_peaks": HourlyPeak,
        "cpu_calibration": CpuCalibration,
        "hand_over_times": HandOverTime,
        "split_candidates": SplitCandidate,
    },
    "Plan": PLAN_TABLES,
    "Audit": AUDIT_TABLES,
}


COMPATIBILITY = Path(__file__).resolve().parent / "reference" / "compatibility.json"
COUNTS = ("producers", "sent", "acknowledged", "received")
SETTING_GROUPS = {
    SettingUse.EVENKEEL: (
        "Settings that Evenkeel uses",
        "They control snapshots, plans and runs. A setting that Pulsar has too is named like its key in `broker.conf`, "
        "in snake case and without the prefix `loadBalancer`, and has Pulsar's default: "
        "`loadBalancerNamespaceBundleMaxTopics` is `namespace_bundle_max_topics`.",
    ),
    SettingUse.REPLAY: (
        "Settings only for the replay of Pulsar's own strategies",
        "Evenkeel passes them to its replay of `transfer-shedder` and `threshold-shedder`: to the plans that these "
        "strategies make, and to the comparison in every plan. They do not change a `certified` plan's steps.",
    ),
    SettingUse.NOTHING: (
        "Settings without effect",
        "Evenkeel accepts them so that you can carry over a cluster's whole load-balancer configuration. Nothing reads "
        "them; they are only stored in the plan.",
    ),
}


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "Put settings under `[settings]` in `evenkeel.toml`, or at the top level of a TOML file for `--settings`.",
    ]
    described = describe_settings()
    for use, (title, note) in SETTING_GROUPS.items():
        lines += ["", f"## {title}", "", note, "", "| Key | Default | Meaning |", "|---|---|---|"]
        lines += [
            f"| `{each.key}` | {_show_default(each.default)} | {each.meaning} |"
            for each in described
            if each.used_by is use
        ]
    return "\n".join(lines) + "\n"


def _show_default(value: Any) -> str:
    shown = format_default(value)
    return shown if value is None else f"`{shown}`"


def tables_page() -> str:
    lines = [
        "# Tables",
        "",
        "Columns of everything that is stored as Parquet. Times are in UTC; a column's name ends in its unit.",
    ]
    for group, tables in TABLES.items():
        lines += ["", f"## {group}"]
        for name, table in tables.items():
            lines += ["", f"### `{name}`", "", "| Column | Type | Meaning |", "|---|---|---|"]
            for column in columns_of(table):
                null = " or null" if column.nullable else ""
                lines.append(f"| `{column.name}` | {column.type.__name__}{null} | {column.comment} |")
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    lines = [
        "# Metrics",
        "",
        "Every run leaves `runs/<run id>/metrics.prom`, and every plan that was checked leaves "
        "`plans/<plan id>/metrics.prom`, in Prometheus' text format; so does every "
        "audit, in its folder under `audits`. With `metrics_push_url`, `apply` also pushes both "
        "to a Prometheus push gateway as job `evenkeel`, grouped by cluster. "
        "[Follow decisions](../guides/follow-decisions.md) shows how to use them.",
    ]
    for title, metrics in (("Runs", RUN_METRICS), ("Plans", PLAN_METRICS), ("Audits", AUDIT_METRICS)):
        lines += ["", f"## {title}", "", "| Metric | Type | Labels | Meaning |", "|---|---|---|---|"]
        for metric in metrics:
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            lines.append(f"| `{metric.name}` | {metric.type} | {labels} | {metric.meaning} |")
    return "\n".join(lines) + "\n"


KINDS = {
    "modular": "modular",
    "extensible": "extensible, metadata-store view",
    "extensible-system-topic": "extensible, system-topic view",
}


COMPATIBILITY_INTRODUCTION = (
    "Written by `make matrix`, which starts real brokers of each version and kind (three brokers, one bookie, three "
    "namespaces with equal ranges) and goes through a full cycle on each, while clients publish to every topic twice a "
    "second. A story fails if a message is refused or lost, if a producer stays silent after its bundle has moved, or "
    "if a bundle is not where the plan says."
)
OTHER_VERSIONS = (
    "The metadata-store view exists since 4.0. Other patches of these lines behave the same. The snapshot's notes "
    "name brokers of other lines; versions before 3.0 are refused."
)
TRAFFIC_EXPLAINED = (
    "Received counts messages, not deliveries. The gap is the longest time in which a topic had no "
    "acknowledgement; without any move it is 0.5 s, the producers' pause."
)


def compatibility_page() -> str:
    """What `make matrix` saw on real brokers; its records lie beside the page."""
    records = json.loads(COMPATIBILITY.read_text())
    lines = ["# Compatibility", "", COMPATIBILITY_INTRODUCTION, ""]
    lines += ["| Pulsar | Load manager | Result | Run on |", "|---|---|---|---|"]
    for version, kind in _supported():
        record = records.get(f"{version}:{kind}")
        lines.append(f"| {version} | {KINDS[kind]} | {_tell_result(record)} | {record['run_on'] if record else '–'} |")
    lines += ["", OTHER_VERSIONS, "", "## What clients saw", "", TRAFFIC_EXPLAINED, ""]
    lines += [
        "| Pulsar | Load manager | Story | Producers | Sent | Acknowledged | Received | Longest publish gap |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for version, kind in _supported():
        for story in records.get(f"{version}:{kind}", {"stories": []})["stories"]:
            seen = story["traffic"]
            counts = " | ".join(f"{seen[key]:,}" if seen else "–" for key in COUNTS)
            gap = f"{seen['longest_gap_s']:.2f} s" if seen else "–"
            lines.append(f"| {version} | {KINDS[kind]} | {story['story']} | {counts} | {gap} |")
    return "\n".join(lines) + "\n"


def _supported() -> list[tuple[str, str]]:
    return [(v, kind) for v in TESTED for kind in KINDS if kind != "extensible" or has_metadata_store_view(v)]


def _tell_result(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return "not recorded yet"
    failed = [story["story"] for story in record["stories"] if story["problem"]]
    return f"failed: {'; '.join(failed)}" if failed else "passed"


PAGES = {
    "settings.md": settings_page,
    "tables.md": tables_page,
    "metrics.md": metrics_page,
    "compatibility.md": compatibility_page,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page())
