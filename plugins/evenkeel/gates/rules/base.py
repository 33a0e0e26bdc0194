"""A named business rule: an expectation that tells each breach in words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from great_expectations.core.suite_parameters import SuiteParameterDict
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from great_expectations.execution_engine.execution_engine import ExecutionEngine
    from pyspark.sql import DataFrame, SparkSession

    Parameter = SuiteParameterDict[str, Any]
else:
    # What stands in a suite for a value that is known only when it runs; pydantic wants the bare class.
    Parameter = SuiteParameterDict

# A rule names this many breaches and counts the rest, so that a verdict stays short however bad the data is.
NAMED_BREACHES = 3


class Rule(BatchExpectation):
    """A rule is kept where a batch holds no breach of it; the class name in snake case is the rule's name.

    A breach is a row with its sentence in `detail`. Where the frame has a column `excess` too, the largest comes
    first; ties and all other frames are ordered by the sentence, so that the same data gives the same verdict.
    """

    metric_dependencies: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def find_breaches(self, rows: DataFrame) -> DataFrame:
        """Reduce a batch to one row a breach."""

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        assert isinstance(execution_engine, SparkDFExecutionEngine)
        breaches = self.find_breaches(execution_engine.dataframe)
        worst_first = [F.col("excess").desc()] if "excess" in breaches.columns else []
        first = breaches.orderBy(*worst_first, F.col("detail")).limit(NAMED_BREACHES + 1).collect()
        count = len(first) if len(first) <= NAMED_BREACHES else breaches.count()
        details = [row["detail"] for row in first[:NAMED_BREACHES]]
        return {"success": count == 0, "result": {"observed_value": count, "details": {"breaches": details}}}


def sentences(spark: SparkSession, details: Sequence[str]) -> DataFrame:
    """Breaches that were found outside of Spark."""
    return spark.createDataFrame(pa.table({"detail": pa.array(details, pa.string())}))


def tell_breaches(details: Sequence[str], count: int) -> str:
    """One sentence for all breaches of a rule: the first few by name, the rest by number."""
    more = f" (and {count - len(details):,} more)" if count > len(details) else ""
    return "; ".join(details) + more
