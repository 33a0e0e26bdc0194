"""A plan by hand stores its snapshot and itself together, or nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.approval import ApprovalRules
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError
from evenkeel.model.plan import StepKind
from evenkeel.model.snapshot import LoadManager
from evenkeel.planning.manual.requests import ManualRequest
from evenkeel.stages.check import check_plan
from evenkeel.stages.manual import plan_by_hand
from support import small_cluster
from support.small_cluster import B01, B03, TAKEN_AT
from support.small_plan import SETTINGS

CONNECTION = ClusterConnection("fleet", "nowhere:2181")
BUNDLE = "shop/orders/0xc0000000_0xffffffff"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake, and the small cluster as what a reader finds."""
    content = SnapshotContent("fleet", TAKEN_AT, LoadManager.EXTENSIBLE, small_cluster.tables())
    monkeypatch.setattr("evenkeel.stages.manual.read_snapshot", lambda *_: content)
    return Lake(str(tmp_path / "lake"))


@pytest.mark.parametrize(
    ("target", "destination"),
    [("shop/orders/0x00000000_0x00000001", B03), ("shop/nothing/a-topic", B03), (BUNDLE, "b09.fleet:8080")],
)
def test_refused_request_leaves_nothing_in_the_lake(lake: Lake, tmp_path: Path, target: str, destination: str) -> None:
    with pytest.raises(EvenkeelError):
        plan_by_hand(lake, CONNECTION, SETTINGS, ManualRequest(StepKind.TRANSFER, target, "ada", destination))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_plan_is_stored_with_its_snapshot_and_judged_without_spark(lake: Lake) -> None:
    stored = plan_by_hand(lake, CONNECTION, SETTINGS, ManualRequest(StepKind.TRANSFER, BUNDLE, "ada", B01))
    assert SnapshotStore(lake).load("fleet").snapshot_id == stored.plan.snapshot_id
    verdict = check_plan(lake, stored.plan_id, "a master that does not exist", ApprovalRules())
    assert verdict.passed, verdict.blocking
    assert [check.name for check in verdict.warnings] == ["plan_is_no_worse_than_before"]
