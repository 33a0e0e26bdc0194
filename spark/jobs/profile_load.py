"""Profile each bundle's load over the history: `spark-submit profile_load.py --lake URI --request ID`."""

from __future__ import annotations

import sys
from typing import Any

from evenkeel.adapters.calibrations import CalibrationStore
from evenkeel_spark.artifacts import PROFILES, profile_id
from evenkeel_spark.history import find_history
from evenkeel_spark.io import FrameStore, read_bundle_history, read_cpu_calibration
from evenkeel_spark.job import JobContext, main
from evenkeel_spark.transforms.profiles import bundle_profiles, hourly_peaks


def profile_load(job: JobContext) -> dict[str, Any]:
    history = find_history(job.lake, job.request.cluster, job.request.snapshot_id, job.settings.history_days)
    calibration_id = CalibrationStore(job.lake).find(job.request.cluster, history.now.taken_at)
    new_id = profile_id(history, calibration_id)
    store = FrameStore(job.lake, PROFILES)
    manifest = store.find(new_id)
    if manifest is None:
        bundle_history = read_bundle_history(job.spark, job.lake, history)
        calibration = read_cpu_calibration(job.spark, job.lake, job.request.cluster, calibration_id)
        profiles = bundle_history.transform(bundle_profiles, calibration)
        peaks = bundle_history.transform(hourly_peaks)
        manifest = store.write(new_id, {"bundle_profiles": profiles, "hourly_peaks": peaks})
    return {
        "profile_id": new_id,
        "profile_uri": store.uri_of(new_id),
        "rows": manifest.tables["bundle_profiles"].rows,
        "snapshots": len(history.manifests),
        "cpu_calibration_id": calibration_id,
        "seconds": job.seconds(),
    }


if __name__ == "__main__":
    sys.exit(main("profile_load", profile_load))
