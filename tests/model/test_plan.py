"""The plan id stands for every byte of the plan; the inverse leads back."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake, to_arrow, to_parquet
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.plan import Step, invert
from support.lakes import make_broker, make_bundle, write_snapshot
from support.plans import make_transfers, store_plan

EXPIRES_AT = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def make_plan(lake: Lake) -> str:
    bundles = [
        make_bundle("t/n/0x00000000_0x80000000", "b1:8080"),
        make_bundle("t/n/0x80000000_0xffffffff", "b2:8080"),
    ]
    manifest = write_snapshot(lake, bundles, [make_broker("b1:8080"), make_broker("b2:8080")])
    return store_plan(lake, manifest, make_transfers(lake, manifest, 2), expires_at=EXPIRES_AT, is_approved=False)


def test_plan_is_found_by_a_beginning_of_its_id(lake: Lake) -> None:
    plan_id = make_plan(lake)
    assert PlanStore(lake).load(plan_id[:8]).plan_id == plan_id
    assert PlanStore(lake).load(plan_id).plan.plan_id == plan_id


def test_same_content_has_the_same_id_and_may_be_written_again(lake: Lake) -> None:
    assert make_plan(lake) == make_plan(lake)


def test_unknown_plan_is_one_sentence(lake: Lake) -> None:
    with pytest.raises(InputError, match="no plans in .*: make one with `evenkeel plan`"):
        PlanStore(lake).load("abc")


def test_steps_that_are_not_the_plans_own_are_refused(lake: Lake, tmp_path: Path) -> None:
    plan_id = make_plan(lake)
    steps = PlanStore(lake).load(plan_id).steps
    forged = [dataclasses.replace(steps[0], destination="b1:8080"), *steps[1:]]
    file = tmp_path / "lake" / "plans" / plan_id / "steps.parquet"
    file.write_bytes(to_parquet(to_arrow(Step, forged)))
    with pytest.raises(InputError, match="is not the table that plan"):
        PlanStore(lake).load(plan_id)


def test_plan_of_an_unknown_schema_is_refused(lake: Lake) -> None:
    from evenkeel.model.plan import Plan

    with pytest.raises(InputError, match="has schema version 2, this version of Evenkeel reads 3"):
        Plan.from_json({"schema_version": 2}, "plan.json")


def test_inverse_leads_back_in_reverse_order(lake: Lake) -> None:
    steps = PlanStore(lake).load(make_plan(lake)).steps
    inverse = invert(list(steps))
    assert [(s.bundle, s.source, s.destination) for s in inverse] == [
        (s.bundle, s.destination, s.source) for s in reversed(steps)
    ]
    assert [step.order for step in inverse] == [0, 1]


def test_artifact_is_never_overwritten(lake: Lake) -> None:
    lake.put_if_absent("a/b", b"one")
    lake.put_if_absent("a/b", b"one")
    with pytest.raises(RefusedError, match="exists with other content: artifacts are never overwritten"):
        lake.put_if_absent("a/b", b"two")
    assert lake.read("a/b") == b"one"
    assert lake.names("a") == ["b"], "no temporary file is left behind"


def test_lake_elsewhere_than_on_a_file_system_is_refused() -> None:
    with pytest.raises(InputError, match="is not on a file system"):
        Lake("ftp://somewhere/lake")
