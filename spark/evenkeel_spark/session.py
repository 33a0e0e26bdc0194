"""Open the Spark session of a plan, set so that a result depends on nothing but its input."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from evenkeel.model.errors import UnavailableError
from evenkeel_spark.submission import is_local

OpenSession = Callable[[], SparkSession]
"""Returns the session of a plan, and opens it when first asked: work that was done before needs none."""

SPARK_ERRORS = (PySparkException, Py4JError)

# The frames of a local run are small; Spark's 200 partitions would cost more than the work itself.
LOCAL_SHUFFLE_PARTITIONS = 4
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "evenkeel-spark-warehouse"),
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS = {
    # A host's own name need not resolve.
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    # Quick starts matter more than peak speed in a run of seconds.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
}


def open_session(app_name: str, master: str | None = None, log: Path | None = None) -> SparkSession:
    """Open a session, or join the one of this process; without a master, spark-submit's is used.

    What Java prints goes into the log, if one is given, and not to the user.
    """
    # Workers take whatever python3 is first on PATH unless they are told.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = _SETTINGS | (_LOCAL_SETTINGS if master is not None and is_local(master) else {})
    _launch_java(settings, log)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except SPARK_ERRORS as error:
        raise _not_started(first_line(error)) from error
    if is_local(str(session.sparkContext.master)):
        session.sparkContext.setLogLevel("ERROR")
        if session.sparkContext.getConf().get(SHUFFLE_PARTITIONS) is None:
            session.conf.set(SHUFFLE_PARTITIONS, str(LOCAL_SHUFFLE_PARTITIONS))
    return session


def first_line(error: BaseException) -> str:
    """What an error of Spark says, without its trace."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _launch_java(settings: dict[str, str], log: Path | None) -> None:
    """Start the JVM with its output kept away from the user; under spark-submit it runs already."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    with _open_output(log) as output:
        try:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
        except SPARK_ERRORS as error:
            output.seek(0)
            words = output.read().decode(errors="replace").strip().splitlines()
            raise _not_started(words[-1] if words else first_line(error)) from error
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _open_output(log: Path | None) -> Iterator[IO[Any]]:
    if log is None:
        with tempfile.TemporaryFile() as output:
            yield output
    else:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a+b") as output:
            yield output


def _not_started(words: str) -> UnavailableError:
    return UnavailableError(
        f"Spark did not start ({words})", "check that Java 17 or newer runs here, and that the master is right"
    )
