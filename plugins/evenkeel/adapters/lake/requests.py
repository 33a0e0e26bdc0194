"""Requests to plan in the lake, and the answers of the Spark jobs that serve them.

An answer names the digest of its request and its job. One that was made for another request, or for one that was
changed since, is refused.
"""

from __future__ import annotations

from typing import Any

from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import show
from evenkeel.model.request import PlanRequest

_REQUEST, _JOB, _ANSWER = "request_sha256", "job", "answer"


class RequestStore:
    """Requests to plan, and the answers of the jobs that serve them."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write(self, request: PlanRequest) -> None:
        self._lake.put_json(f"requests/{request.request_id}/request.json", request.to_json())

    def load(self, request_id: str) -> PlanRequest:
        path = f"requests/{request_id}/request.json"
        request = PlanRequest.from_json(self._lake.read_json(path), self._lake.uri_of(path))
        if request.request_id != request_id:
            raise InputError(f"{self._lake.uri_of(path)} is request {show(request.request_id)}", "make a new request")
        return request

    def answer(self, request: PlanRequest, job: str, value: dict[str, Any]) -> None:
        document = {_REQUEST: request.sha256, _JOB: job, _ANSWER: value}
        self._lake.put_json(f"requests/{request.request_id}/{job}.json", document)

    def read_answer(self, request: PlanRequest, job: str) -> dict[str, Any] | None:
        """The answer of a job to exactly this request; None where there is none yet."""
        path = f"requests/{request.request_id}/{job}.json"
        if not self._lake.exists(path):
            return None
        document, uri = self._lake.read_json(path), self._lake.uri_of(path)
        if not isinstance(document, dict) or not isinstance(document.get(_ANSWER), dict):
            raise InputError(f"{uri} is not an answer", "make a new request")
        if (document.get(_REQUEST), document.get(_JOB)) != (request.sha256, job):
            raise InputError(f"{uri} answers another request", "make a new request")
        return dict(document[_ANSWER])
