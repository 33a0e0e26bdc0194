"""What may be added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


def is_sane(figure: Column) -> Column:
    """Whether a figure is finite and not negative; an unknown one (null) is."""
    # Spark takes NaN for larger than any other number, infinity included.
    return figure.isNull() | ((figure >= F.lit(0.0)) & (figure < F.lit(float("inf"))))


def whole(figure: Column) -> Column:
    """A figure as an integer, because sums of doubles depend on the order; what is not sane counts as nothing."""
    return F.coalesce(F.when(is_sane(figure), F.round(figure)).try_cast("bigint"), F.lit(0).cast("bigint"))
