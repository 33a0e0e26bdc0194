"""When Airflow retries a task: all rules in one place, each with its reason.

    refused, fenced out, bad input, run stopped   fail at once
    a bug                                         fail at once
    unavailable                                   retry after a delay
    anything else                                 readers retry, writers fail

A policy applies only if the task itself raised. If a worker dies (killed, machine lost), Airflow's scheduler retries as
long as `retries` are left. For the writer that is a resumption, not a repetition: it waits until the dead session has
expired, takes a new epoch and continues where the journal ends.
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
POKE_INTERVAL = timedelta(seconds=15)
LOOK_TIMEOUT = timedelta(minutes=2)

RULES = [
    # FencedOutError comes before RefusedError, its base class, so that the log shows the more specific reason.
    RetryRule(FencedOutError, RetryAction.FAIL, reason="another writer took over; this one must not write again"),
    RetryRule(RefusedError, RetryAction.FAIL, reason="a guard refused; it will refuse again unless something changes"),
    RetryRule(InputError, RetryAction.FAIL, reason="the input is wrong; a retry does not change it"),
    RetryRule(RunStoppedError, RetryAction.FAIL, reason="the run stopped; a person must look first, then resume"),
    RetryRule(
        UnavailableError,
        RetryAction.RETRY,
        UNAVAILABLE_DELAY,
        reason="another system did not respond; it may come back",
    ),
    RetryRule(
        [ImportError, TypeError, AttributeError, LookupError, AssertionError],
        RetryAction.FAIL,
        reason="a bug; a retry would fail the same way",
    ),
]


class StatedErrorPolicy(RetryPolicy):
    """Judges a failed spark-submit by the error that the job printed at the end of its output, if any.

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

# Task arguments. Reading and computing may be repeated freely; artifacts are put-if-absent.
SENSOR: dict[str, Any] = {
    "retries": UNAVAILABLE_RETRIES,
    "retry_delay": UNAVAILABLE_DELAY,
    "retry_policy": READER_POLICY,
}
# A task hands on one value; otherwise Airflow would store every key of a dictionary once more.
READER: dict[str, Any] = SENSOR | {"multiple_outputs": False}
# The arguments of a Spark submission are single keys of a request.
REQUESTER: dict[str, Any] = SENSOR | {"multiple_outputs": True}
# A task that writes to the cluster or acts for a person fails on everything but a clear "try later".
WRITER: dict[str, Any] = READER | {"retry_policy": WRITER_POLICY}
# A job serves its request once, however often it is submitted, so it may be submitted again if it died silently.
SPARK_JOB: dict[str, Any] = {
    "retries": SPARK_RETRIES,
    "retry_delay": UNAVAILABLE_DELAY,
    "retry_policy": StatedErrorPolicy(),
}
