"""The session of all Spark tests, set as a user's session may be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

TIME_ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def spark(spark_session: SparkSession) -> Iterator[SparkSession]:
    """A session whose time zone is not UTC: a verdict must not depend on it."""
    usual = spark_session.conf.get(TIME_ZONE)
    spark_session.conf.set(TIME_ZONE, "Asia/Tokyo")
    yield spark_session
    spark_session.conf.set(TIME_ZONE, str(usual))
