"""A sick broker, which gives no load report or answers slowly, can be drained and does not block the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from evenkeel.adapters.fencing.directives import Draining
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.zookeeper.session import open_session
from evenkeel.gates.snapshot_gate import judge_snapshot
from evenkeel.model.directives import Directive
from evenkeel.model.snapshot import SNAPSHOT_TABLES, Broker, Bundle, SnapshotManifest
from evenkeel.model.timestamps import format_time
from evenkeel.stages.snapshot import take_snapshot
from support.plans import rows
from support.scenes import SETTINGS, Scene
from support.waiting import eventually, scaled

IMPATIENT = dataclasses.replace(SETTINGS, broker_answer_timeout_s=scaled(1.0))


def mark(scene: Scene, broker: str) -> None:
    with open_session(scene.connection) as session:
        Draining(session, scene.connection).mark(
            [broker], Directive("ada", format_time(datetime.now(UTC)), "it is sick")
        )


def take(scene: Scene) -> SnapshotManifest:
    return take_snapshot(scene.lake, scene.connection, IMPATIENT)


def loads_on(scene: Scene, manifest: SnapshotManifest, broker: str) -> dict[str, float]:
    bundles: list[Bundle] = rows(scene.lake, manifest, "bundles", Bundle)
    return {b.bundle: b.throughput_in_bytes_per_s for b in bundles if b.owner == broker}


def passes(scene: Scene, manifest: SnapshotManifest) -> bool:
    tables = {name: SnapshotStore(scene.lake).read_table(manifest, name) for name in SNAPSHOT_TABLES}
    return judge_snapshot(manifest, tables, IMPATIENT).passed


def test_silent_broker_blocks_planning_until_it_is_drained_and_keeps_its_last_known_load(
    stage: Callable[..., Scene],
) -> None:
    scene = stage()
    sick = scene.fleet.broker_ids[1]
    before = loads_on(scene, take(scene), sick)
    scene.fleet.freeze_reports(sick)
    silent = take(scene)
    assert not passes(scene, silent), "all brokers are one pool"
    assert any(f"broker {sick} gave no load report (not complete within" in note for note in silent.notes)
    mark(scene, sick)
    drained = take(scene)
    (row,) = [b for b in rows(scene.lake, drained, "brokers", Broker) if b.broker_id == sick]
    assert (row.state, row.reported_at) == ("Stopping", None)
    assert loads_on(scene, drained, sick) == before
    assert any(load > 0 for load in before.values())
    assert any(f"broker {sick} is drained without a load report" in note for note in drained.notes)
    assert passes(scene, drained)


def test_bundles_of_which_no_snapshot_knows_anything_count_as_the_mean(stage: Callable[..., Scene]) -> None:
    scene = stage()
    sick = scene.fleet.broker_ids[1]
    scene.fleet.freeze_reports(sick)
    mark(scene, sick)
    manifest = take(scene)
    (guessed,) = set(loads_on(scene, manifest, sick).values())
    bundles: list[Bundle] = rows(scene.lake, manifest, "bundles", Bundle)
    known = [b.throughput_in_bytes_per_s for b in bundles if b.reported_at is not None]
    assert guessed == pytest.approx(sum(known) / len(known))
    assert any("as the mean of all reported ones" in note for note in manifest.notes)


def test_modular_broker_with_a_stale_report_can_be_drained(stage: Callable[..., Scene]) -> None:
    scene = stage("modular", report_interval_s=0.2, report_max_interval_s=0.5)
    sick = scene.fleet.broker_ids[1]
    stale = dataclasses.replace(IMPATIENT, broker_load_data_ttl_in_seconds=scaled(2.0))
    scene.fleet.freeze_reports(sick)

    def state() -> str:
        manifest = take_snapshot(scene.lake, scene.connection, stale)
        (row,) = [b for b in rows(scene.lake, manifest, "brokers", Broker) if b.broker_id == sick]
        return str(row.state)

    assert eventually(lambda: state() == "Inactive")
    mark(scene, sick)
    assert state() == "Stopping"
