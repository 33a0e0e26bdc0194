"""Find the bundles to split by PIP-192: `spark-submit find_split_candidates.py --lake URI --request ID`."""

from __future__ import annotations

import sys
from typing import Any

from evenkeel_spark.artifacts import CANDIDATES, candidates_id
from evenkeel_spark.history import find_history
from evenkeel_spark.io import FrameStore, read_bundle_history
from evenkeel_spark.job import JobContext, main
from evenkeel_spark.transforms.split_candidates import split_candidates


def find_split_candidates(job: JobContext) -> dict[str, Any]:
    history = find_history(job.lake, job.request.cluster, job.request.snapshot_id, job.settings.history_days)
    new_id = candidates_id(history, job.settings)
    store = FrameStore(job.lake, CANDIDATES)
    manifest = store.find(new_id)
    if manifest is None:
        candidates = read_bundle_history(job.spark, job.lake, history).transform(split_candidates, job.settings)
        manifest = store.write(new_id, {"split_candidates": candidates})
    return {
        "candidates_id": new_id,
        "candidates_uri": store.uri_of(new_id),
        "rows": manifest.tables["split_candidates"].rows,
        "snapshots": len(history.manifests),
        "seconds": job.seconds(),
    }


if __name__ == "__main__":
    sys.exit(main("find_split_candidates", find_split_candidates))
