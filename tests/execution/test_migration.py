"""A metadata migration (PIP-454), and a change of the table view: looked for in snapshots, preflight and every step."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from evenkeel.adapters.fencing.journal import FencedWrite, Journal
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.zookeeper.nodes import Operation
from evenkeel.fleet import http_documents
from evenkeel.model.errors import RefusedError
from evenkeel.model.run import JournalEntry, RunState, StepState
from evenkeel.stages.snapshot import take_snapshot
from support.approvals import apply_plan
from support.scenes import SETTINGS, SWITCHES_OF_FLEET, Scene, meddle, warnings_of

KINDS = ("extensible", "modular")


def migrate(scene: Scene, phase: str) -> None:
    """Do what Pulsar's migration does to its node."""
    path = f"{scene.connection.pulsar_root}/pulsar/migration-coordinator/migration"
    data = json.dumps({"phase": phase, "targetUrl": "oxia://elsewhere:6648"}).encode()
    if scene.client.exists(path) is None:
        scene.client.create(path, data, makepath=True)
    else:
        scene.client.set(path, data)


@pytest.mark.parametrize(
    ("phase", "why"),
    [
        ("PREPARATION", r"is being migrated to oxia://elsewhere:6648 \(phase PREPARATION\)"),
        ("COPYING", r"is being migrated to oxia://elsewhere:6648 \(phase COPYING\)"),
        ("COMPLETED", "was migrated to oxia://elsewhere:6648: its brokers no longer read this ZooKeeper"),
        ("SOMETHING_NEW", r"is being migrated to oxia://elsewhere:6648 \(phase SOMETHING_NEW\)"),
    ],
)
def test_snapshot_and_apply_are_refused_while_brokers_leave_the_store(
    stage: Callable[..., Scene], phase: str, why: str
) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    snapshots = SnapshotStore(scene.lake).ids(scene.connection.cluster)
    migrate(scene, phase)
    with pytest.raises(RefusedError, match=why):
        take_snapshot(scene.lake, scene.connection, SETTINGS)
    with pytest.raises(RefusedError, match=why):
        scene.apply(plan_id)
    assert SnapshotStore(scene.lake).ids(scene.connection.cluster) == snapshots
    assert scene.is_untouched


@pytest.mark.parametrize("phase", ["NOT_STARTED", "FAILED"])
def test_migration_that_is_not_under_way_is_told(stage: Callable[..., Scene], phase: str) -> None:
    scene = stage()
    migrate(scene, phase)
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    assert any(f"is in phase {phase}" in note for note in manifest.notes)
    run = apply_plan(scene.lake, scene.plan(1), scene.connection, SETTINGS)
    assert run.state is RunState.DONE, run.detail
    assert any(f"is in phase {phase}" in warning for warning in warnings_of(scene, run))


@pytest.mark.parametrize("kind", KINDS)
def test_migration_that_begins_in_mid_run_stops_the_line(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    scene = stage(kind)
    plan_id = scene.plan(6)
    meddle(monkeypatch, 1, lambda view: migrate(scene, "PREPARATION"))
    state, results, why = scene.apply(plan_id)
    assert state is RunState.STOPPED
    assert "is being migrated to oxia://elsewhere:6648 (phase PREPARATION)" in why
    assert [result.state for result in results] == [StepState.SETTLED]
    assert scene.switches() == SWITCHES_OF_FLEET


def test_transaction_is_refused_if_the_phase_changes_right_before_it(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    migrate(scene, "NOT_STARTED")
    plan_id = scene.plan(1)
    prepare = Journal.prepare

    def migrate_then_prepare(journal: Journal, entry: JournalEntry, effects: Sequence[Operation] = ()) -> FencedWrite:
        migrate(scene, "PREPARATION")
        return prepare(journal, entry, effects)

    monkeypatch.setattr(Journal, "prepare", migrate_then_prepare)
    state, results, why = scene.apply(plan_id)
    assert state is RunState.STOPPED
    assert "a migration of the cluster's metadata has begun" in why
    assert (results, scene.journal(plan_id)) == ([], [])


def test_node_of_a_migration_is_never_created(stage: Callable[..., Scene]) -> None:
    scene = stage()
    scene.apply(scene.plan(1))
    assert scene.client.exists(f"{scene.connection.pulsar_root}/pulsar") is None


def test_change_of_the_table_view_is_told(stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    scene = stage()
    real = http_documents.runtime_configuration
    monkeypatch.setattr(
        http_documents,
        "runtime_configuration",
        lambda *facts: real(*facts) | {"loadBalancerServiceUnitTableViewSyncer": "SystemTopicToMetadataStoreSyncer"},
    )
    told = "loadBalancerServiceUnitTableViewSyncer is SystemTopicToMetadataStoreSyncer on 3 of 3 brokers"
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    assert any(told in note for note in manifest.notes)
    run = apply_plan(scene.lake, scene.plan(1), scene.connection, SETTINGS)
    assert any(told in warning for warning in warnings_of(scene, run))
