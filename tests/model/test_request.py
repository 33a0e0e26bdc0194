"""Requests to plan refuse what no job could serve."""

from __future__ import annotations

import pytest

from evenkeel.model.errors import InputError
from evenkeel.model.request import PlanRequest


def make_request(request_id: str = "request-1", strategy: str = "certified") -> PlanRequest:
    return PlanRequest(request_id, "lab", "snapshot", strategy, {}, "0.1.0")


def test_unknown_strategy_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="there is no strategy 'wild': choose one of certified"):
        make_request(strategy="wild")


@pytest.mark.parametrize("strategy", ["certified", "transfer-shedder", "threshold-shedder"])
def test_our_strategy_and_pulsars_two_may_be_asked_for(strategy: str) -> None:
    assert make_request(strategy=strategy).strategy == strategy


@pytest.mark.parametrize("request_id", ["", "../plans", "a/b", ".hidden", "a b"])
def test_request_id_that_is_no_folder_name_is_refused(request_id: str) -> None:
    with pytest.raises(InputError, match="is not a request id"):
        make_request(request_id)


def test_request_survives_json_and_a_malformed_one_is_named() -> None:
    request = make_request()
    assert PlanRequest.from_json(request.to_json(), "request.json") == request
    with pytest.raises(InputError, match="request.json is not a request"):
        PlanRequest.from_json({"schema_version": 1, "colour": "red"}, "request.json")
