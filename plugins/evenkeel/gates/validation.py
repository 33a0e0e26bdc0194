"""Running a suite of Great Expectations on a Spark frame, quietly, and telling its results as checks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evenkeel.gates.suites import read_suite
from evenkeel.model.verdict import Check, Severity

if TYPE_CHECKING:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.core.batch_definition import BatchDefinition
    from pyspark.sql import DataFrame

_KEPT = "holds"
UNJUDGED = "{} could not be judged"


def run_suite(name: str, rows: DataFrame, parameters: Mapping[str, Any]) -> list[Check]:
    """Judge a frame by the suite of that name; the parameters are what `$PARAMETER` in the suite stands for."""
    from great_expectations import ExpectationSuite

    import evenkeel.gates.rules  # noqa: F401  registers the business rules under their names

    suite = ExpectationSuite(**read_suite(name))
    batch = _whole_frame(rows.sparkSession.sparkContext.applicationId).get_batch(batch_parameters={"dataframe": rows})
    outcome = batch.validate(suite, expectation_parameters=dict(parameters), result_format="COMPLETE")
    return [_as_check(name, result) for result in outcome.results]


@functools.lru_cache(maxsize=1)
def _whole_frame(application_id: str) -> BatchDefinition[Any]:
    """How a frame becomes a batch, in a context in memory, without progress bars and without usage statistics.

    Made once for a Spark application, because a context takes longer to set up than a suite to run.
    """
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    # The gates keep frames in memory themselves, and let go of them.
    frames = context.data_sources.add_spark(f"frames of {application_id}", persist=False)
    return frames.add_dataframe_asset(name="frame").add_batch_definition_whole_dataframe("whole")


def _as_check(suite: str, result: ExpectationValidationResult) -> Check:
    expectation = result.expectation_config
    assert expectation is not None
    name = (expectation.meta or {}).get("rule", expectation.type)
    description = expectation.description or expectation.to_domain_obj().description or name
    failure = _find_exception(result.exception_info)
    if failure is not None:
        # What could not be judged must not pass, whatever it is worth otherwise.
        return Check(suite, name, Severity.CRITICAL, False, description, f"{UNJUDGED.format(name)} ({failure})")
    severity = Severity(str(getattr(expectation.severity, "value", expectation.severity)))
    passed = bool(result.success)
    return Check(suite, name, severity, passed, description, _KEPT if passed else _tell(description, result))


def _tell(description: str, result: ExpectationValidationResult) -> str:
    """Say what broke an expectation: in the rule's own words, else by what was observed."""
    from evenkeel.gates.rules.base import tell_breaches

    observed = result.result
    if "breaches" in observed.get("details", {}):
        return tell_breaches(observed["details"]["breaches"], observed["observed_value"])
    return f"{description}, but {observed.get('observed_value')} was found"


def _find_exception(info: Mapping[str, Any] | None) -> str | None:
    """The first line of what went wrong; GX nests it by metric where the expectation is one of its own."""
    if not info:
        return None
    for entry in (info, *(value for value in info.values() if isinstance(value, Mapping))):
        if entry.get("raised_exception"):
            lines = str(entry.get("exception_message") or "no message").splitlines()
            return next((line.strip() for line in lines if line.strip()), "no message")
    return None
