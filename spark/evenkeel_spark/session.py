"""Open the Spark session of a job, set so that a result depends on nothing but its input."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evenkeel.model.errors import UnavailableError

# The frames of a local run are small; Spark's 200 partitions would cost more than the work itself.
LOCAL_SHUFFLE_PARTITIONS = 4
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
STANDARD_ERROR = 2


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
    with _quiet_java():
        session = builder.getOrCreate()
    if is_local(str(session.sparkContext.master)):
        _settle_for_local(session)
    return session


@contextmanager
def _quiet_java() -> Iterator[None]:
    """Keep Java's chatter from standing between a user and the result; tell its last words if it does not start.

    Java inherits standard error when it starts. Under spark-submit it has started already, and nothing changes.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        yield
        return
    sys.stderr.flush()
    own = os.dup(STANDARD_ERROR)
    with tempfile.TemporaryFile() as words:
        os.dup2(words.fileno(), STANDARD_ERROR)
        try:
            yield
        except (PySparkException, Py4JError) as error:
            words.seek(0)
            last = (words.read().decode(errors="replace").strip().splitlines() or [str(error)])[-1]
            raise UnavailableError(
                f"Spark did not start ({last})", "see that Java 17 or newer runs here, and that the master is right"
            ) from error
        finally:
            os.dup2(own, STANDARD_ERROR)
            os.close(own)


def _settle_for_local(session: SparkSession) -> None:
    session.sparkContext.setLogLevel("ERROR")
    if session.sparkContext.getConf().get(SHUFFLE_PARTITIONS) is None:
        session.conf.set(SHUFFLE_PARTITIONS, str(LOCAL_SHUFFLE_PARTITIONS))
