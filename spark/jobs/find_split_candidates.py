"""Find the bundles to split by PIP-192: `spark-submit find_split_candidates.py --lake URI --request ID`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from evenkeel.model.load import SplitCandidate
from evenkeel.model.setting_fields import AUTO
from evenkeel.model.settings import Settings
from evenkeel.pulsar.auto_thresholds import resolve_auto
from evenkeel_spark.artifacts import CANDIDATES, candidates_id
from evenkeel_spark.cluster import Cluster, read_cluster
from evenkeel_spark.cuts import find_cuts
from evenkeel_spark.history import History, find_history
from evenkeel_spark.io import FrameStore, read_bundle_history, read_snapshot_table
from evenkeel_spark.job import JobContext, main
from evenkeel_spark.schemas import spark_schema
from evenkeel_spark.totals import cluster_totals
from evenkeel_spark.transforms.split_candidates import split_candidates


def find_split_candidates(job: JobContext) -> dict[str, Any]:
    history = find_history(job.lake, job.request.cluster, job.request.snapshot_id, job.settings.history_days)
    new_id = candidates_id(history, job.settings)
    store = FrameStore(job.lake, CANDIDATES)
    manifest = store.find(new_id)
    if manifest is None:
        rows = find_candidates(job, history)
        frame = job.spark.createDataFrame([asdict(row) for row in rows], spark_schema(SplitCandidate))
        manifest = store.write(new_id, {"split_candidates": frame})
    return {
        "candidates_id": new_id,
        "candidates_uri": store.uri_of(new_id),
        "rows": manifest.tables["split_candidates"].rows,
        "snapshots": len(history.manifests),
        "seconds": job.seconds(),
    }


def find_candidates(job: JobContext, history: History) -> list[SplitCandidate]:
    """The candidates of this cycle, which are few, each with its best cut."""
    cluster = read_cluster(job.lake, job.request.cluster, job.request.snapshot_id)
    policies = cluster.policies
    # Two children count twice, and an anti-affinity group must not get more crowded.
    left_whole = {*policies.excluded_namespaces, *job.settings.shedding_excluded_namespaces, *policies.anti_affinity}
    candidates = (
        read_bundle_history(job.spark, job.lake, history)
        .transform(split_candidates, _resolve(job, history, cluster), left_whole)
        .orderBy("rank")
        .collect()
    )
    topics = read_snapshot_table(job.spark, job.lake, history.now, "topics")
    cuts = find_cuts(topics, [row["bundle"] for row in candidates])
    return [SplitCandidate(**row.asDict(), **asdict(cuts[row["bundle"]])) for row in candidates]


def _resolve(job: JobContext, history: History, cluster: Cluster) -> Settings:
    """The settings with numbers for what is on auto."""
    if AUTO not in job.settings.to_json().values():
        return job.settings
    bundles = read_snapshot_table(job.spark, job.lake, history.now, "bundles")
    return resolve_auto(job.settings, cluster_totals(bundles, cluster.brokers, job.settings))


if __name__ == "__main__":
    sys.exit(main("find_split_candidates", find_split_candidates))
