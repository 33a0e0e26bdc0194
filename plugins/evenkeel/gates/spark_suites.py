"""Run a suite by Great Expectations on Spark, for snapshots that are too large for one process.

Spark applies all rules about a large table in one pass: each partition, with whole namespaces in it, is reduced to what
every rule found there. The findings of a suite are small and become one frame. Great Expectations judges that frame:
each rule is an expectation that no breach of it was found.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from great_expectations import ExpectationSuite
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.gates.rules import Finding, Rule, apply_rule, load_rules, merge_findings
from evenkeel.gates.suites import make_check, read_suite, resolve_parameters
from evenkeel.model.verdict import Check

if TYPE_CHECKING:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.execution_engine.execution_engine import ExecutionEngine

# All rows of a namespace are in one partition, because rules look at a namespace as a whole.
PARTITION_KEY = "namespace"
_FINDINGS = "rule string, finding string"


class RuleExpectation(BatchExpectation):
    """Expects that the frame of findings holds no breach of one rule; the subclasses are made from the rules."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def rule_name(cls) -> str:
        """The rule that is judged."""

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: ExecutionEngine[Any] | None = None,
    ) -> dict[str, Any]:
        assert isinstance(execution_engine, SparkDFExecutionEngine)
        rows = execution_engine.dataframe.where(F.col("rule") == self.rule_name()).collect()
        finding = merge_findings([Finding.decode(row["finding"]) for row in rows])
        return {
            "success": finding.error is None and finding.count == 0,
            "result": {"observed_value": finding.count, "details": {"finding": finding.encode()}},
        }


def judge_frames(
    spark: SparkSession, name: str, tables: Mapping[str, pa.Table | DataFrame], parameters: Mapping[str, Any]
) -> list[Check]:
    """Judge tables by the suite of that name; large tables are Spark frames."""
    content = read_suite(name)
    rules = load_rules()
    wanted = [
        (rules[entry["type"]], resolve_parameters(entry["kwargs"], parameters)) for entry in content["expectations"]
    ]
    findings = _find(tables, wanted)
    frame = spark.createDataFrame(
        pa.table(
            {
                "rule": pa.array([rule for rule, _ in findings], pa.string()),
                "finding": pa.array([finding.encode() for _, finding in findings], pa.string()),
            }
        )
    )
    register_expectations()
    batch = _batch_definition(spark.sparkContext.applicationId).get_batch(batch_parameters={"dataframe": frame})
    outcome = batch.validate(
        ExpectationSuite(**content), expectation_parameters=dict(parameters), result_format="COMPLETE"
    )
    return [_as_check(name, result) for result in outcome.results]


def _find(
    tables: Mapping[str, pa.Table | DataFrame], wanted: Iterable[tuple[Rule, dict[str, Any]]]
) -> list[tuple[str, Finding]]:
    """What the rules find, in one Spark job a large table."""
    by_table: dict[str, list[tuple[Rule, dict[str, Any]]]] = defaultdict(list)
    for rule, kwargs in wanted:
        by_table[rule.table].append((rule, kwargs))
    found: list[tuple[str, Finding]] = []
    for name, its_rules in by_table.items():
        rows = tables[name]
        if isinstance(rows, pa.Table):
            found += [(rule.name, apply_rule(rule, rows, kwargs)) for rule, kwargs in its_rules]
        else:
            found += _scan(rows, its_rules)
    return found


def _scan(rows: DataFrame, wanted: list[tuple[Rule, dict[str, Any]]]) -> list[tuple[str, Finding]]:
    columns = {PARTITION_KEY, *(column for rule, _ in wanted for column in rule.columns)}
    # A rule reports the columns that it misses.
    needed = rows.select(*(column for column in rows.columns if column in columns)).repartition(PARTITION_KEY)
    reduced = needed.mapInArrow(_reduce_partition([(rule.name, kwargs) for rule, kwargs in wanted]), _FINDINGS)
    return [(row["rule"], Finding.decode(row["finding"])) for row in reduced.collect()]


def _reduce_partition(
    wanted: list[tuple[str, dict[str, Any]]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # It names nothing of this module: executors would import Great Expectations with it, which they need not have.
    def reduce_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if held:
            rows, rules = pa.Table.from_batches(held), load_rules()
            found = [apply_rule(rules[name], rows, kwargs).encode() for name, kwargs in wanted]
            names = [name for name, _ in wanted]
            yield pa.RecordBatch.from_arrays(
                [pa.array(names, pa.string()), pa.array(found, pa.string())], names=["rule", "finding"]
            )

    return reduce_partition


@functools.lru_cache(maxsize=1)
def register_expectations() -> None:
    """Make an expectation of every rule; its type is the rule's name."""
    metaclass: Any = type(RuleExpectation)
    for rule in load_rules().values():
        class_name = "".join(part.capitalize() for part in rule.name.split("_"))
        fields: dict[str, Any] = dict.fromkeys(rule.parameters)
        fields["__annotations__"] = {"description": "str | None", **dict.fromkeys(rule.parameters, "Any")}
        fields["description"] = rule.description
        fields["rule_name"] = classmethod(lambda cls, name=rule.name: name)
        # Great Expectations registers a class when it is made.
        metaclass(class_name, (RuleExpectation,), fields | {"__module__": __name__})


@functools.lru_cache(maxsize=1)
def _batch_definition(application_id: str) -> BatchDefinition[Any]:
    """How a frame becomes a batch, in a context in memory, without progress bars and without usage statistics.

    Made once for a Spark application, because a context takes longer to set up than a suite to run.
    """
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    # The frame is local to the driver already.
    frames = context.data_sources.add_spark(f"findings of {application_id}", persist=False)
    return frames.add_dataframe_asset(name="findings").add_batch_definition_whole_dataframe("whole")


def _as_check(suite: str, result: ExpectationValidationResult) -> Check:
    expectation = result.expectation_config
    assert expectation is not None
    severity = str(getattr(expectation.severity, "value", expectation.severity))
    rule = load_rules()[expectation.type]
    encoded = result.result.get("details", {}).get("finding")
    finding = Finding.decode(encoded) if encoded else Finding(0, (), _find_exception(result.exception_info))
    return make_check(suite, rule.name, rule.description, severity, finding)


def _find_exception(info: Mapping[str, Any] | None) -> str:
    """The first line of what went wrong inside Great Expectations."""
    for entry in (info or {}, *(value for value in (info or {}).values() if isinstance(value, Mapping))):
        if entry.get("raised_exception"):
            lines = str(entry.get("exception_message") or "").splitlines()
            return next((line.strip() for line in lines if line.strip()), "no message")
    return "no result"
