"""When Airflow tries a task again: one place, each rule with its reason.

    refused, fenced out, bad input, run stopped   fail at once
    a fault of the program                        fail at once
    unavailable                                   try again after a delay
    anything else                                 by task: readers try again, writers do not

A policy speaks only when the task itself raised. Where a worker dies without a word (killed, machine lost), Airflow's
scheduler retries as long as `retries` are left. For the writer that is a resumption, not a repetition: it waits out the
dead session, takes a new epoch and goes on where the journal ends.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryDecision, RetryPolicy, RetryRule

from evenkeel.model.errors import (
    FencedOutError,
    InputError,
    RefusedError,
    RunStoppedError,
    UnavailableError,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

UNAVAILABLE_DELAY = timedelta(seconds=30)
UNAVAILABLE_RETRIES = 3
SPARK_RETRIES = 1

RULES = [
    # FencedOutError before RefusedError, whose subclass it is, so that the log gives the nearer reason.
    RetryRule(FencedOutError, RetryAction.FAIL, reason="another writer took over; this one must not write again"),
    RetryRule(RefusedError, RetryAction.FAIL, reason="a guard said no; without a change it says so again"),
    RetryRule(InputError, RetryAction.FAIL, reason="the input is wrong and does not mend itself"),
    RetryRule(RunStoppedError, RetryAction.FAIL, reason="the run stopped the line; a person looks first, then resumes"),
    RetryRule(
        UnavailableError,
        RetryAction.RETRY,
        UNAVAILABLE_DELAY,
        reason="an outside system did not answer; it may come back",
    ),
    RetryRule(
        [ImportError, TypeError, AttributeError, LookupError, AssertionError],
        RetryAction.FAIL,
        reason="a fault of the program repeats itself",
    ),
]


class StatedErrorPolicy(RetryPolicy):
    """Judges a failed spark-submit by the error that the job stated at the end of its output, if it stated one.

    The Spark provider raises one kind of exception for everything, with the last lines of the output in its text.
    """

    default = RetryAction.DEFAULT

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        from evenkeel_spark.stated_errors import find_stated_error

        stated = find_stated_error(str(exception))
        if stated is None:
            return RetryDecision.default()
        return READER_POLICY.evaluate(stated, try_number, max_tries, context)


READER_POLICY = ExceptionRetryPolicy(RULES, default=RetryAction.DEFAULT)
WRITER_POLICY = ExceptionRetryPolicy(RULES, default=RetryAction.FAIL)

# Arguments for tasks. Reading and computing may be repeated freely; artifacts are put-if-absent.
READER: dict[str, Any] = {
    "retries": UNAVAILABLE_RETRIES,
    "retry_delay": UNAVAILABLE_DELAY,
    "retry_policy": READER_POLICY,
}
# What touches the cluster or speaks for a person fails on anything that is not plainly "try later".
WRITER: dict[str, Any] = READER | {"retry_policy": WRITER_POLICY}
# A job answers once, however often it is submitted, so it may be submitted again when it ended without a word.
SPARK_JOB: dict[str, Any] = {
    "retries": SPARK_RETRIES,
    "retry_delay": UNAVAILABLE_DELAY,
    "retry_policy": StatedErrorPolicy(),
}
