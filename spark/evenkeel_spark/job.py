"""What all jobs share: read a request, do the work once, leave an answer in the lake.

Where the request has the job's answer already, the job is done without Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from evenkeel.adapters.lake.requests import RequestStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.request import PlanRequest
from evenkeel.model.settings import Settings
from evenkeel_spark.session import OpenSession


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a job works with."""

    name: str
    lake: Lake
    request: PlanRequest
    settings: Settings
    started_at_s: float
    open_session: OpenSession

    @property
    def spark(self) -> SparkSession:
        """The session; a job that finds its work done asks for none."""
        return self.open_session()

    def seconds(self) -> float:
        """Seconds since the job began."""
        return round(time.monotonic() - self.started_at_s, 3)

    def answer_of(self, job: str) -> Mapping[str, Any]:
        """The answer of a job before this one."""
        answer = RequestStore(self.lake).read_answer(self.request, job)
        if answer is None:
            raise InputError(
                f"request {self.request.request_id} has no answer of {job} yet", f"run the job {job} first"
            )
        return answer


Job = Callable[[JobContext], dict[str, Any]]


def run(name: str, job: Job, lake_uri: str, request_id: str, session: OpenSession) -> dict[str, Any]:
    """Run a job for a request, unless it has run before; returns the one answer that there is."""
    started_at_s = time.monotonic()
    lake = Lake(lake_uri)
    requests = RequestStore(lake)
    request = requests.load(request_id)
    found = requests.read_answer(request, name)
    if found is not None:
        return found
    settings = Settings.from_json(request.settings, f"request {request_id}")
    answer = job(JobContext(name, lake, request, settings, started_at_s, session))
    try:
        requests.answer(request, name, answer)
    except RefusedError:
        # A second run of this job answered first; its result is the same, only its seconds differ.
        found = requests.read_answer(request, name)
        if found is None:
            raise
        return found
    return answer
