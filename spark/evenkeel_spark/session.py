"""Open the Spark session of a job, set so that a result depends on nothing but its input."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

# The frames of a local run are small; Spark's 200 partitions would cost more than the work itself.
LOCAL_SHUFFLE_PARTITIONS = 4
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def is_local(master: str) -> bool:
    """Whether driver and executors are one process of this machine."""
    return master == "local" or master.startswith("local[")


def open_session(app_name: str, master: str | None = None) -> SparkSession:
    """Open a session, or join the one of this process; without a master, spark-submit's is used."""
    # Workers take whatever python3 is first on PATH unless they are told.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "evenkeel-spark-warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if is_local(str(session.sparkContext.master)):
        _settle_for_local(session)
    return session


def _settle_for_local(session: SparkSession) -> None:
    session.sparkContext.setLogLevel("ERROR")
    if session.sparkContext.getConf().get(SHUFFLE_PARTITIONS) is None:
        session.conf.set(SHUFFLE_PARTITIONS, str(LOCAL_SHUFFLE_PARTITIONS))
