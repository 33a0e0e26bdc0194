"""What may be added up."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def is_sane(figure: Column) -> Column:
    """Whether a figure is finite and not negative; an unknown one (null) is."""
    # Spark takes NaN for larger than any other number, infinity included.
    return figure.isNull() | ((figure >= F.lit(0.0)) & (figure < F.lit(float("inf"))))


def whole(figure: Column) -> Column:
    """A figure as the nearest integer, halves upwards, because sums of doubles depend on the order.

    What is not sane counts as nothing.
    """
    return F.coalesce(F.when(is_sane(figure), F.round(figure)).try_cast("bigint"), F.lit(0).cast("bigint"))
