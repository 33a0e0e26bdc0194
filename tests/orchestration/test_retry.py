"""Which failures Airflow retries."""

from __future__ import annotations

import pytest
from airflow.sdk import RetryAction, RetryPolicy

from evenkeel.model.errors import (
    EvenkeelError,
    FencedOutError,
    InputError,
    RefusedError,
    RunStoppedError,
    UnavailableError,
)
from evenkeel.orchestration.retry import READER_POLICY, RULES, SPARK_JOB, UNAVAILABLE_DELAY, WRITER, WRITER_POLICY
from evenkeel_spark.stated_errors import ERROR_PREFIX, encode_error


@pytest.mark.parametrize("policy", [READER_POLICY, WRITER_POLICY])
@pytest.mark.parametrize("error", [FencedOutError, RefusedError, InputError, RunStoppedError])
def test_refusal_fails_at_once(policy: RetryPolicy, error: type[EvenkeelError]) -> None:
    assert policy.evaluate(error("cause", "remedy"), 1, 3).action is RetryAction.FAIL


@pytest.mark.parametrize("policy", [READER_POLICY, WRITER_POLICY])
def test_unavailable_is_retried_after_a_delay(policy: RetryPolicy) -> None:
    decision = policy.evaluate(UnavailableError("cause", "remedy"), 1, 3)
    assert decision.action is RetryAction.RETRY
    assert decision.retry_delay == UNAVAILABLE_DELAY
    assert WRITER["retries"] > 0


def test_only_readers_retry_an_unknown_failure() -> None:
    assert READER_POLICY.evaluate(OSError("disk"), 1, 3).action is RetryAction.DEFAULT
    assert WRITER_POLICY.evaluate(OSError("disk"), 1, 3).action is RetryAction.FAIL


@pytest.mark.parametrize("error", [ModuleNotFoundError("m"), KeyError("k"), TypeError("t")])
def test_bug_is_not_retried(error: Exception) -> None:
    assert READER_POLICY.evaluate(error, 1, 3).action is RetryAction.FAIL


def submit_failure(*lines: str) -> Exception:
    """Return the error that the Spark provider raises, with the tail of the job's output."""
    return RuntimeError("\n".join(["Cannot execute: spark-submit. Error code is: 1.", *lines]))


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (InputError("cause", "remedy"), RetryAction.FAIL),
        (RefusedError("cause", "remedy"), RetryAction.FAIL),
        (UnavailableError("cause", "remedy"), RetryAction.RETRY),
    ],
)
def test_spark_job_is_judged_by_the_error_that_it_printed(error: EvenkeelError, action: RetryAction) -> None:
    output = submit_failure("noise", f"{ERROR_PREFIX}{encode_error(error)}", "ShutdownHookManager: done")
    assert SPARK_JOB["retry_policy"].evaluate(output, 1, 1).action is action


@pytest.mark.parametrize("tail", ["java.lang.OutOfMemoryError", f'{ERROR_PREFIX}{{"cause": "cut o'])
def test_spark_job_that_died_silently_is_submitted_again(tail: str) -> None:
    assert SPARK_JOB["retry_policy"].evaluate(submit_failure(tail), 1, 1).action is RetryAction.DEFAULT


def test_fenced_out_writer_gets_the_specific_reason() -> None:
    assert "another writer" in str(WRITER_POLICY.evaluate(FencedOutError("cause", "remedy"), 1, 3).reason)


def test_every_error_of_the_tree_has_a_rule_with_a_reason() -> None:
    for error in EvenkeelError.__subclasses__():
        assert any(rule.matches(error("cause", "remedy")) and rule.reason for rule in RULES), error
