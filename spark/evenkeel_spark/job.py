"""The frame that all jobs share: read a request, do the work once, leave an answer, fail in one sentence.

A job takes the lake and a request's id. Where the request has the job's answer already, the job is done before
Spark starts. A failure that a user can act on ends with exit code 1 and one line on standard error:
`evenkeel-error: {"cause": …, "error": …, "remedy": …}`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import RequestStore
from evenkeel.model.errors import EvenkeelError, InputError, RefusedError
from evenkeel.model.request import PlanRequest
from evenkeel.model.settings import Settings
from evenkeel_spark.session import open_session
from evenkeel_spark.stated_errors import ERROR_PREFIX, encode_error


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a job works with."""

    name: str
    lake: Lake
    request: PlanRequest
    settings: Settings
    started_at_s: float

    @property
    def spark(self) -> SparkSession:
        """The session, opened when first asked for: a job that finds its work done needs none."""
        return open_session(f"evenkeel {self.name}")

    def seconds(self) -> float:
        """Seconds since the job began."""
        return round(time.monotonic() - self.started_at_s, 3)

    def answer_of(self, job: str) -> Mapping[str, Any]:
        """What a job before this one has answered."""
        answer = RequestStore(self.lake).read_answer(self.request.request_id, job)
        if answer is None:
            raise InputError(
                f"request {self.request.request_id} has no answer of {job} yet", f"run the job {job} first"
            )
        return answer


Serve = Callable[[JobContext], dict[str, Any]]


def main(job: str, serve: Serve, arguments: Sequence[str] | None = None) -> int:
    """Run a job from its command line; answers the exit code."""
    parser = argparse.ArgumentParser(prog=job, description=f"The Spark job {job} of a request to plan.")
    parser.add_argument("--lake", required=True, metavar="URI", help="the lake that holds the request")
    parser.add_argument("--request", required=True, metavar="ID", help="the request to serve")
    options = parser.parse_args(arguments)
    try:
        with _log_on_stdout():
            run(job, serve, options.lake, options.request)
    except EvenkeelError as error:
        print(f"{ERROR_PREFIX}{encode_error(error)}", file=sys.stderr, flush=True)
        return 1
    return 0


@contextmanager
def _log_on_stdout() -> Iterator[None]:
    """Print what Evenkeel logs on standard output, which spark-submit and Airflow keep as the job's log."""
    logger, handler = logging.getLogger("evenkeel"), logging.StreamHandler(sys.stdout)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def run(job: str, serve: Serve, lake_uri: str, request_id: str) -> dict[str, Any]:
    """Serve a request, or find that it has been served; either way, the one answer there is."""
    started_at_s = time.monotonic()
    lake = Lake(lake_uri)
    requests = RequestStore(lake)
    request = requests.load(request_id)
    found = requests.read_answer(request_id, job)
    if found is not None:
        return found
    settings = Settings.from_json(request.settings, f"request {request_id}")
    answer = serve(JobContext(job, lake, request, settings, started_at_s))
    try:
        requests.answer(request_id, job, answer)
    except RefusedError:
        # A second run of this job answered first; its result is the same, only its seconds differ.
        found = requests.read_answer(request_id, job)
        if found is None:
            raise
        return found
    return answer
