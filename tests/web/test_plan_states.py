"""What has become of a plan, from the records beside it: each state, and which of two wins."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel import __version__
from evenkeel.adapters.fencing.live_writer import LiveWriter
from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.approval import Answer, Person, Revocation
from evenkeel.model.run import RunRecord, RunState
from evenkeel.model.run_events import name_run
from evenkeel.stages.refuse import refuse_plan
from evenkeel.web.app_files import AppFiles
from evenkeel.web.live_state import LiveState
from evenkeel.web.picture import draw_balance
from evenkeel.web.plan_states import PlanState, find_state, read_records
from support import small_plan
from support.approvals import approve, judge
from support.lakes import make_bundle, write_snapshot
from support.plans import make_transfers, store_plan

IDLE = LiveState(None, {}, None, {})
BUNDLES = [
    make_bundle("shop/orders/0x00000000_0x80000000", "b1:8080"),
    make_bundle("shop/a/0x00000000_0xffffffff", "b2:8080"),
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def store(lake: Lake, **wishes: Any) -> str:
    manifest = write_snapshot(lake, BUNDLES)
    return store_plan(
        lake, manifest, make_transfers(lake, manifest, 1), **{"is_passed": None, "is_approved": False} | wishes
    )


def state_of(lake: Lake, plan_id: str, live: LiveState = IDLE, now: datetime | None = None) -> PlanState:
    plan = PlanStore(lake).read_plan(plan_id)
    return find_state(plan, plan_id, read_records(lake, plan_id), live, now or datetime.now(UTC))


def run_of(plan_id: str, state: RunState, dry_run: bool = False) -> RunRecord:
    at = "2026-01-05T12:00:00.000Z"
    return RunRecord(name_run(plan_id, 1), plan_id, "test", 1, state, at, at, dry_run, (), "", __version__)


def test_plan_goes_from_unchecked_to_approved(lake: Lake) -> None:
    plan_id = store(lake)
    assert state_of(lake, plan_id) is PlanState.UNCHECKED
    judge(lake, plan_id)
    assert state_of(lake, plan_id) is PlanState.PLANNED
    approve(lake, plan_id)
    assert state_of(lake, plan_id) is PlanState.APPROVED


def test_plan_that_the_gate_blocks_is_refused_even_after_it_expires(lake: Lake) -> None:
    plan_id = store(lake, is_passed=False)
    assert state_of(lake, plan_id) is PlanState.REFUSED
    assert state_of(lake, plan_id, now=datetime.now(UTC) + timedelta(days=1)) is PlanState.REFUSED


def test_plan_that_nobody_applied_expires(lake: Lake) -> None:
    plan_id = store(lake, is_passed=True, is_approved=True)
    assert state_of(lake, plan_id, now=datetime.now(UTC) + timedelta(days=1)) is PlanState.EXPIRED


def test_recorded_no_is_shown_with_its_reason(lake: Lake) -> None:
    plan_id = store(lake, is_passed=True)
    made = refuse_plan(
        lake, plan_id, Answer.REJECTED, Person("ada", "Airflow user 7", "worker-1"), "Airflow", "not now"
    )
    assert read_records(lake, plan_id).refusals == (made,)
    assert state_of(lake, plan_id) is PlanState.REJECTED


def test_run_decides_over_what_was_recorded_before(lake: Lake) -> None:
    plan_id = store(lake, is_passed=True, is_approved=True)
    RunStore(lake).write(run_of(plan_id, RunState.DONE, dry_run=True))
    assert state_of(lake, plan_id) is PlanState.APPROVED


@pytest.mark.parametrize(
    ("ended", "state"), [(RunState.DONE, PlanState.APPLIED), (RunState.STOPPED, PlanState.STOPPED)]
)
def test_plan_is_what_its_run_made_of_it(lake: Lake, ended: RunState, state: PlanState) -> None:
    plan_id = store(lake, is_passed=True, is_approved=True)
    RunStore(lake).write(run_of(plan_id, ended))
    assert state_of(lake, plan_id) is state
    writer = LiveWriter("ada", "host", "1", plan_id, 2, 7)
    assert state_of(lake, plan_id, dataclasses.replace(IDLE, writer=writer)) is PlanState.RUNNING


def test_plan_that_was_taken_back_is_revoked(lake: Lake) -> None:
    plan_id = store(lake, is_passed=True, is_approved=True)
    PlanStore(lake).write_revocation(Revocation(plan_id, "ada", "OS user ada", "host", "2026-01-05T12:00:00Z", "wrong"))
    assert state_of(lake, plan_id) is PlanState.REVOKED


def test_verdict_that_cannot_be_read_is_named(lake: Lake) -> None:
    plan_id = store(lake)
    lake.put_if_absent(f"plans/{plan_id}/gate.json", b"{}")
    (complaint,) = read_records(lake, plan_id).unreadable
    assert "gate.json" in complaint


def test_picture_escapes_names_and_keeps_to_the_brokers_that_change_most() -> None:
    rows = small_plan.balances()
    hostile = [dataclasses.replace(row, broker_id=f"<b>{row.broker_id}&") for row in rows]
    many = [dataclasses.replace(rows[0], broker_id=f"c{n:03}:8080", used_after=rows[0].used_before) for n in range(50)]
    made = small_plan.stored(rows=[*hostile, *many])
    picture = draw_balance(StoredPlan(made.plan, made.plan_id, "", made.steps, made.rejections, made.brokers))
    assert "<b>" not in picture
    assert "&lt;b&gt;" in picture
    assert "41 brokers that change less are left out" in picture


def test_version_of_the_app_changes_with_any_file(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text("1")
    (tmp_path / "secret.py").write_text("no")
    before = AppFiles(tmp_path)
    (tmp_path / "page.js").write_text("2")
    assert AppFiles(tmp_path).version != before.version
    assert before.find("page.js") == (b"1", "text/javascript")
    assert before.find("secret.py") is None
