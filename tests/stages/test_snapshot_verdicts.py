"""A stored verdict on a snapshot counts only if it is this gate's verdict on this snapshot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.gates.expected_checks import expect_of_snapshot
from evenkeel.model.errors import RefusedError
from evenkeel.model.settings import Settings
from evenkeel.model.verdict import Subject, Verdict
from evenkeel.stages.check import check_snapshot
from evenkeel.stages.plan import request_plan
from support.approvals import make_verdict
from support.lakes import make_bundle, write_snapshot

Forge = Callable[[Verdict], Verdict]


def other_ttl(verdict: Verdict) -> Verdict:
    patient = dataclasses.replace(Settings(), broker_load_data_ttl_in_seconds=99.0)
    return make_verdict(expect_of_snapshot(patient), Subject.SNAPSHOT, verdict.subject_id)


@pytest.mark.parametrize(
    ("forge", "sentence"),
    [
        (lambda verdict: dataclasses.replace(verdict, checks=()), "checks missing: "),
        (lambda verdict: dataclasses.replace(verdict, checks=verdict.checks[1:]), "checks missing: "),
        (lambda verdict: dataclasses.replace(verdict, subject_id="another"), "it is on snapshot another"),
        (lambda verdict: dataclasses.replace(verdict, kind=Subject.PLAN), "it is on plan"),
        (other_ttl, "it was made by another version of the suite snapshot_brokers"),
    ],
)
def test_forged_or_foreign_verdict_on_a_snapshot_is_refused(tmp_path: Path, forge: Forge, sentence: str) -> None:
    lake = Lake(str(tmp_path))
    manifest = write_snapshot(lake, [make_bundle("t/n/0x00000000_0xffffffff", "b1:8080")])
    honest = make_verdict(expect_of_snapshot(Settings()), Subject.SNAPSHOT, manifest.snapshot_id)
    SnapshotStore(lake).write_verdict(manifest, Settings(), forge(honest))
    with pytest.raises(RefusedError, match=sentence):
        check_snapshot(lake, manifest.cluster, None, Settings(), "no master is asked")
    with pytest.raises(RefusedError, match=sentence):
        request_plan(lake, manifest.cluster, None, "certified", Settings(), "request-1")
    assert lake.names("requests") == []
