"""A no to a plan in the lake: every one is kept, a broken one hides none, and the last is told with the next plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.approval import Answer, Person
from evenkeel.model.run import RunRecord, RunState
from evenkeel.model.timestamps import format_time
from evenkeel.stages.refuse import describe_last_refusal, refuse_plan
from support import small_plan

ADA = Person("ada", "Airflow user 7", "worker-1")
HOW = "Airflow, Dag run rebalance_window manual__1"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


@pytest.fixture
def plan_id(lake: Lake) -> str:
    made = small_plan.stored()
    PlanStore(lake).write(made.plan, made.steps, made.rejections, made.brokers)
    return made.plan_id


def cluster_of(lake: Lake, plan_id: str) -> str:
    return PlanStore(lake).read_plan(plan_id).cluster


def test_every_no_is_kept_in_order(lake: Lake, plan_id: str) -> None:
    first = refuse_plan(lake, plan_id, Answer.TIMED_OUT, Person("nobody", "Airflow", "worker-1"), HOW)
    second = refuse_plan(lake, plan_id[:12], Answer.REJECTED, ADA, HOW, "too many moves")
    assert PlanStore(lake).read_refusals(plan_id) == [first, second]
    assert second.describe() == f"rejected by ada (Airflow user 7) at {second.answered_at}: too many moves"
    assert first.describe() == f"nobody answered until {first.answered_at}"


def test_broken_or_foreign_record_hides_no_other(
    lake: Lake, plan_id: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = refuse_plan(lake, plan_id, Answer.REJECTED, ADA, HOW)
    folder = tmp_path / "plans" / plan_id / "refusals"
    (folder / "broken.json").write_text('{"answer": "maybe"}')
    foreign = next(folder.glob("*.json")).read_text().replace(plan_id, "b" * 64)
    (folder / "foreign.json").write_text(foreign)
    assert PlanStore(lake).read_refusals(plan_id) == [kept]
    assert "a refusal is skipped" in caplog.text


def test_last_no_is_told_until_something_is_applied(lake: Lake, plan_id: str) -> None:
    cluster = cluster_of(lake, plan_id)
    assert describe_last_refusal(lake, cluster) is None
    refusal = refuse_plan(lake, plan_id, Answer.REJECTED, ADA, HOW, "not on a Monday")
    told = describe_last_refusal(lake, cluster)
    assert told is not None
    assert told == f"the question before this one, about plan {plan_id[:12]}: {refusal.describe()}"
    assert describe_last_refusal(lake, "another") is None
    later = format_time(datetime.now(UTC) + timedelta(seconds=2))
    RunStore(lake).write(RunRecord("run", plan_id, cluster, 1, RunState.DONE, later, later, False, (), "", "0.1.0"))
    assert describe_last_refusal(lake, cluster) is None
