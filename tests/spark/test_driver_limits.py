"""Which snapshots are planned on the driver: those of which it can hold all that planning reads."""

from __future__ import annotations

import dataclasses

import pytest

from evenkeel_spark import jobs
from evenkeel_spark.driver_loads import MOST_TOPICS_IN_PROCESS
from support import small_cluster


@pytest.mark.parametrize(
    ("bundles", "topics", "fits"),
    [
        (jobs.MOST_BUNDLES_ON_DRIVER, MOST_TOPICS_IN_PROCESS, True),
        (jobs.MOST_BUNDLES_ON_DRIVER + 1, 0, False),
        (1, MOST_TOPICS_IN_PROCESS + 1, False),
    ],
)
def test_snapshot_with_many_bundles_or_topics_stays_on_the_executors(bundles: int, topics: int, fits: bool) -> None:
    rows = {"brokers": 1, "bundles": bundles, "topics": topics, "policies": 0}
    manifest = small_cluster.manifest()
    tables = {name: dataclasses.replace(manifest.tables[name], rows=count) for name, count in rows.items()}
    assert jobs._fits_driver(dataclasses.replace(manifest, tables=tables)) is fits
