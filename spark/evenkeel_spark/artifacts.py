"""What the jobs leave in the lake, and the ids that stand for what went into it.

The same snapshots, settings and schemas give the same id, so a second run finds the first one's tables.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from evenkeel.adapters.lake import Lake
from evenkeel.model.canonical import digest
from evenkeel.model.load import BundleProfile, HourlyPeak
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SNAPSHOT_SCHEMA_VERSION
from evenkeel_spark.history import History
from evenkeel_spark.io import FRAME_SCHEMA_VERSION, FrameStore
from evenkeel_spark.transforms.planned_rates import LoadTables

PROFILES = "profiles"
CANDIDATES = "candidates"

# Raised whenever the meaning of a table's figures changes; ids then change with it.
PROFILES_VERSION = 2
CANDIDATES_VERSION = 2

_SPLIT_SETTINGS = (
    "namespace_bundle_max_topics",
    "namespace_bundle_max_sessions",
    "namespace_bundle_max_msg_rate",
    "namespace_bundle_max_bandwidth_mbytes",
    "namespace_bundle_split_condition_hit_count_threshold",
    "max_number_of_bundles_to_split_per_cycle",
    "namespace_maximum_bundles",
    "shedding_excluded_namespaces",
)


def profile_id(history: History, calibration_id: str | None) -> str:
    """The id of the load profiles of a history, with the cpu weights of a calibration."""
    kind = {"kind": PROFILES, "version": PROFILES_VERSION, "cpu_calibration": calibration_id}
    return digest(kind | _inputs(history))


def read_load_tables(spark: SparkSession, lake: Lake, wanted_id: str) -> LoadTables:
    """The tables of a committed load profile."""
    store = FrameStore(lake, PROFILES)
    return LoadTables(
        bundle_profiles=store.read(spark, wanted_id, "bundle_profiles", BundleProfile),
        hourly_peaks=store.read(spark, wanted_id, "hourly_peaks", HourlyPeak),
    )


def candidates_id(history: History, settings: Settings) -> str:
    """The id of the split candidates that a history has by some settings."""
    thresholds = {name: getattr(settings, name) for name in _SPLIT_SETTINGS}
    return digest({"kind": CANDIDATES, "version": CANDIDATES_VERSION, "settings": thresholds} | _inputs(history))


def _inputs(history: History) -> dict[str, object]:
    return {
        "cluster": history.now.cluster,
        "snapshots": history.snapshot_ids,
        "schema_versions": {"snapshot": SNAPSHOT_SCHEMA_VERSION, "frame": FRAME_SCHEMA_VERSION},
    }
