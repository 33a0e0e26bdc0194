"""The next plan uses the hand-over times that an audit has learnt, unless the operator chose others."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from evenkeel.adapters.lake.learnt import HandOverStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.load import HandOverTime
from evenkeel.model.settings import Settings
from evenkeel.stages.check import check_snapshot
from evenkeel.stages.learnt_costs import with_learnt_hand_overs
from evenkeel.stages.plan import request_plan
from support.lakes import CLUSTER, TAKEN_AT, make_broker, make_bundle, write_snapshot

WHOLE = "acme/orders/0x00000000_0xffffffff"


def test_request_has_the_times_that_were_known_when_its_snapshot_was_taken(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    rows = [HandOverTime("transfer", 120, 40, TAKEN_AT), HandOverTime("unload", 900, 40, TAKEN_AT)]
    HandOverStore(lake).write(CLUSTER, TAKEN_AT, rows)
    HandOverStore(lake).write(CLUSTER, TAKEN_AT + timedelta(hours=1), [HandOverTime("transfer", 70, 9, TAKEN_AT)])
    manifest = write_snapshot(lake, [make_bundle(WHOLE)], [make_broker("b1:8080")])
    check_snapshot(lake, CLUSTER, manifest.snapshot_id, Settings(), "local[1]")
    request = request_plan(lake, CLUSTER, manifest.snapshot_id, "certified", Settings(), "request-1")
    assert (request.settings["transfer_hand_over_ms"], request.settings["unload_hand_over_ms"]) == (120, 900)


def test_what_the_operator_chose_stays(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    HandOverStore(lake).write(CLUSTER, TAKEN_AT, [HandOverTime("transfer", 120, 40, TAKEN_AT)])
    chosen = Settings(transfer_hand_over_ms=800)
    assert with_learnt_hand_overs(lake, CLUSTER, chosen, TAKEN_AT) == chosen
    without = Settings(use_learnt_costs=False)
    assert with_learnt_hand_overs(lake, CLUSTER, without, TAKEN_AT) == without
    earlier = TAKEN_AT - timedelta(seconds=1)
    assert with_learnt_hand_overs(lake, CLUSTER, Settings(), earlier) == Settings()
