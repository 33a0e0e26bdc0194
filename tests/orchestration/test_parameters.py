"""What a person may ask of a Dag run, and how it is refused before anything has happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings
from evenkeel.orchestration.parameters import (
    approval_params,
    drain_params,
    plan_params,
    read_brokers,
    read_deadline,
    read_plan_wishes,
    read_reason,
    read_run,
    read_timeout,
    refuse_unknown,
    time_params,
    window_params,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BUNDLE = "t/n/0x00000000_0x40000000"


def params(**given: Any) -> dict[str, Any]:
    """The parameters of `rebalance_window` as a run has them."""
    known = {**plan_params(), **time_params(), **window_params(), **approval_params()}
    return {name: param.resolve() for name, param in known.items()} | given


def test_defaults_ask_for_what_is_configured() -> None:
    wishes = read_plan_wishes(params())
    configured = Settings(objective="moves", pinned_bundles=(BUNDLE,))
    assert wishes.over(configured) == configured
    assert (wishes.snapshot, wishes.is_plan_only, wishes.is_relief_only) == (None, False, False)
    assert read_deadline(params(), NOW) is None
    assert read_timeout(params()) == timedelta(hours=1)


def test_wishes_go_before_the_configuration_and_lists_are_added_to_it() -> None:
    wishes = read_plan_wishes(
        params(objective="disruption", max_steps=10, pinned_bundles=[BUNDLE], shedding_excluded_namespaces=["t/a"])
    )
    found = wishes.over(Settings(objective="moves", shedding_excluded_namespaces=("t/z",)))
    assert (found.objective, found.max_steps, found.pinned_bundles) == ("disruption", 10, (BUNDLE,))
    assert found.shedding_excluded_namespaces == ("t/z", "t/a")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"strategy": "best"}, "the parameter strategy = 'best' is not usable"),
        ({"objective": "cheap"}, "objective"),
        ({"tolerance": -1}, "tolerance = -1"),
        ({"tolerance": "wide"}, "tolerance"),
        ({"max_steps": 1.5}, "max_steps"),
        ({"plan_only": "yes"}, "the parameter plan_only = 'yes' is neither true nor false"),
        ({"pinned_bundles": ["t/n"]}, "'t/n' is not a bundle"),
        ({"pinned_bundles": BUNDLE}, "pinned_bundles = 't/n/0x00000000_0x40000000' is no list of texts"),
        ({"pinned_bundles": [BUNDLE, " "]}, "has an empty entry"),
        ({"brokers_left_alone": ["b/1"]}, "'b/1' is not a broker id"),
        ({"snapshot": 7}, "the parameter snapshot = 7 is no text"),
    ],
)
def test_wrong_wish_is_refused_by_its_name(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_plan_wishes(params(**given))


@pytest.mark.parametrize("text", ["tomorrow", "2026-03-01", "2026-03-01T04:00:00", "", 7])
def test_deadline_that_is_none_is_refused(text: Any) -> None:
    if text == "":
        assert read_deadline({"deadline": text}, NOW) is None
        return
    with pytest.raises(InputError, match="the parameter deadline = "):
        read_deadline({"deadline": text}, NOW)


def test_deadline_in_the_past_is_refused() -> None:
    assert read_deadline({"deadline": "2026-03-01T01:00:00+01:00"}, NOW - timedelta(seconds=1)) == NOW
    with pytest.raises(InputError, match="has passed already: choose a time after 2026-03-01T00:00:00"):
        read_deadline({"deadline": "2026-03-01T01:00:00+01:00"}, NOW)


@pytest.mark.parametrize(
    ("brokers", "sentence"),
    [
        ([], "the parameter brokers is empty"),
        (None, "the parameter brokers is empty"),
        (["../b"], "is not a broker id"),
        ([1], "no list of texts"),
    ],
)
def test_brokers_to_drain_must_be_named(brokers: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_brokers({"brokers": brokers})


def test_brokers_are_sorted_and_named_once() -> None:
    assert read_brokers({"brokers": ["b:1", " a:1", "b:1"]}) == ["a:1", "b:1"]


@pytest.mark.parametrize("minutes", [0, -1, "soon", None, float("nan"), True, 1e9])
def test_approval_time_out_must_be_a_number_of_minutes(minutes: Any) -> None:
    with pytest.raises(InputError, match="approval_timeout_minutes"):
        read_timeout({"approval_timeout_minutes": minutes})


def test_run_must_be_named() -> None:
    with pytest.raises(InputError, match="the parameter run is empty"):
        read_run({"run": " "})


def test_reason_becomes_one_short_line() -> None:
    assert read_reason("reason", {"reason": " disk\n is  full "}) == "disk is full"
    assert read_reason("reason", {"reason": None}) == ""
    with pytest.raises(InputError, match="at most 500 characters"):
        read_reason("reason", {"reason": "x" * 501})


def test_parameter_that_no_form_has_is_refused_with_the_nearest() -> None:
    refuse_unknown({"brokers": []}, list(drain_params()))
    with pytest.raises(InputError, match=r"there is no parameter 'broker': did you mean brokers\?"):
        refuse_unknown({"broker": "b:1"}, list(drain_params()))
