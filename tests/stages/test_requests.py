"""Answers under requests/ count for exactly the request that they were made for."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.requests import RequestStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.request import PlanRequest
from evenkeel.model.settings import Settings
from evenkeel.stages.plan import PLANNING_JOB, load_request, read_planned
from support.lakes import make_broker, make_bundle, write_snapshot
from support.plans import make_transfers, store_plan


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


@pytest.fixture
def request_(lake: Lake) -> PlanRequest:
    """A request with its plan, and the answer that names it."""
    bundles = [make_bundle("t/n/0x00000000_0x80000000", "b1:8080"), make_bundle("t/n/0x80000000_0xffffffff", "b2:8080")]
    manifest = write_snapshot(lake, bundles, [make_broker("b1:8080"), make_broker("b2:8080")])
    plan_id = store_plan(lake, manifest, make_transfers(lake, manifest, 1))
    settings = Settings().to_json()
    made = PlanRequest("request-1", manifest.cluster, manifest.snapshot_id, "certified", settings, "0.1.0")
    requests = RequestStore(lake)
    requests.write(made)
    requests.answer(made, PLANNING_JOB, {"plan_id": plan_id})
    return made


def file_of(lake: Lake, name: str) -> Path:
    return Path(lake.uri.removeprefix("file://")) / "requests" / "request-1" / f"{name}.json"


def test_answer_to_this_request_counts(lake: Lake, request_: PlanRequest) -> None:
    assert PlanStore(lake).read_plan(read_planned(lake, request_)["plan_id"]).cluster == request_.cluster
    assert load_request(lake, "request-1", request_.sha256).sha256 == request_.sha256


def test_answer_to_another_request_is_refused(lake: Lake, request_: PlanRequest) -> None:
    other = dataclasses.replace(request_, settings=dict(request_.settings) | {"tolerance": 0.5})
    with pytest.raises(InputError, match=r"plan_transfers\.json answers another request: make a new request"):
        read_planned(lake, other)


def test_request_that_was_changed_is_refused(lake: Lake, request_: PlanRequest) -> None:
    fields = json.loads(file_of(lake, "request").read_text())
    file_of(lake, "request").write_text(json.dumps(fields | {"strategy": "threshold-shedder"}))
    with pytest.raises(InputError, match="request request-1 was changed since it was made"):
        load_request(lake, "request-1", request_.sha256)
    file_of(lake, "request").write_text(json.dumps(fields | {"request_id": "request-2"}))
    with pytest.raises(InputError, match="is request 'request-2'"):
        load_request(lake, "request-1", request_.sha256)


def test_answer_of_another_job_is_refused(lake: Lake, request_: PlanRequest) -> None:
    fields = json.loads(file_of(lake, PLANNING_JOB).read_text())
    file_of(lake, PLANNING_JOB).write_text(json.dumps(fields | {"job": "profile_load"}))
    with pytest.raises(InputError, match="answers another request"):
        read_planned(lake, request_)


def test_answer_with_a_plan_that_nobody_asked_for_is_refused(lake: Lake, request_: PlanRequest) -> None:
    asked = dataclasses.replace(request_, request_id="request-2", snapshot_id="20260101T000000Z-000000000000")
    RequestStore(lake).answer(asked, PLANNING_JOB, read_planned(lake, request_))
    with pytest.raises(InputError, match="is not what request request-2 asked for"):
        read_planned(lake, asked)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"answer": 5}', b'{"plan_id": "x"}', b'{"plan_id": "../../x"}']
)
def test_forged_answer_is_one_sentence(lake: Lake, request_: PlanRequest, content: bytes) -> None:
    file_of(lake, PLANNING_JOB).write_bytes(content)
    with pytest.raises(InputError, match="is not an answer|is not JSON"):
        read_planned(lake, request_)


@pytest.mark.parametrize("plan_id", ["../../x", "a/b", "x\ny", "f" * 64, 5])
def test_answer_that_names_no_plan_is_one_sentence(lake: Lake, request_: PlanRequest, plan_id: object) -> None:
    file_of(lake, PLANNING_JOB).unlink()
    RequestStore(lake).answer(request_, PLANNING_JOB, {"plan_id": plan_id})
    with pytest.raises(InputError, match="cannot be a name in the lake|does not exist"):
        read_planned(lake, request_)
