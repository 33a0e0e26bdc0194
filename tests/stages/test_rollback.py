"""Moves by hand and their way back, on a running fleet; the gate has its own tests, so its word is given here."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.plan import StepKind
from evenkeel.model.run import RunRecord, RunState, StepState
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle
from evenkeel.planning.manual.requests import ManualRequest
from evenkeel.stages.drain import mark_brokers, unmark_brokers
from evenkeel.stages.manual import plan_by_hand
from evenkeel.stages.rollback import plan_rollback, preview_rollback
from evenkeel.stages.runs import ListedRun, list_runs
from evenkeel.stages.snapshot import take_snapshot
from support.approvals import apply_plan, approve, judge
from support.fleets import first_bundle, running_fleet
from support.plans import make_transfers, rows, store_plan
from support.waiting import eventually, scaled

SETTINGS = Settings(session_timeout_s=scaled(2.0), step_deadline_s=scaled(90.0), verify_wait_s=scaled(5.0))
B1, B2, B3 = (f"b0{n}.fleet:8080" for n in (1, 2, 3))

KILLED_AFTER_ITS_FIRST_STEP = """
import json, os, signal, sys
from evenkeel.adapters.approval_policy import ApprovalPolicy
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle
from evenkeel.stages.apply import apply_plan

def die(result):
    if result.state == "settled":
        os.kill(os.getpid(), signal.SIGKILL)

lake, plan_id, connection = sys.argv[1:]
settings = Settings(session_timeout_s=2.0, step_deadline_s=90.0)
connection, approvals = ClusterConnection(**json.loads(connection)), ApprovalPolicy.unsigned()
apply_plan(Lake(lake), plan_id, connection, settings, on_progress=die, approvals=approvals)
"""


@dataclasses.dataclass
class Scene:
    """A running fleet and a lake."""

    fleet: Fleet
    lake: Lake
    connection: ClusterConnection

    def store_run_plan(self, count: int) -> str:
        manifest = take_snapshot(self.lake, self.connection, SETTINGS)
        return store_plan(self.lake, manifest, make_transfers(self.lake, manifest, count))

    def apply(self, plan_id: str) -> RunRecord:
        plans = PlanStore(self.lake)
        if plans.read_verdict(plan_id) is None:
            judge(self.lake, plan_id)
            approve(self.lake, plan_id)
        return apply_plan(self.lake, plan_id, self.connection, SETTINGS)

    def runs(self) -> list[ListedRun]:
        return list_runs(self.lake, self.connection.cluster, self.connection)


@pytest.fixture(params=["extensible", "modular"])
def scene(
    request: pytest.FixtureRequest, zookeeper: EmbeddedZooKeeper, pulsar_root: str, tmp_path: Path
) -> Iterator[Scene]:
    with running_fleet(zookeeper, pulsar_root, brokers=3, bundles=24, load_manager=request.param) as fleet:
        connection = ClusterConnection(
            fleet.settings.cluster,
            zookeeper.connect_string,
            pulsar_root=pulsar_root,
            evenkeel_root=f"{pulsar_root}/evenkeel",
        )
        yield Scene(fleet, Lake(str(tmp_path / "lake")), connection)


def test_move_by_hand_goes_there_and_back_and_not_back_twice(scene: Scene) -> None:
    bundle = first_bundle(scene.fleet, B1)
    stored = plan_by_hand(
        scene.lake, scene.connection, SETTINGS, ManualRequest(StepKind.TRANSFER, bundle, "ada", destination=B3)
    )
    run = scene.apply(stored.plan_id)
    assert (run.state, run.count(StepState.SETTLED)) == (RunState.DONE, 1), run
    assert eventually(lambda: scene.fleet.owner_of(bundle) == B3)
    way_back = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    (step,) = way_back.steps
    assert (step.bundle, step.source, step.destination) == (bundle, B3, B1)
    assert scene.apply(way_back.plan_id).count(StepState.SETTLED) == 1
    assert eventually(lambda: scene.fleet.owner_of(bundle) == B1)
    with pytest.raises(RefusedError, match="is rolled back already, by plan"):
        plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert [(listed.strategy, listed.state, listed.settled) for listed in scene.runs()] == [
        ("rollback", "done", 1),
        ("manual", "done", 1),
    ]


def test_preview_is_what_the_rollback_would_do_and_leaves_nothing_behind(scene: Scene) -> None:
    run = scene.apply(scene.store_run_plan(3))
    folder = Path(urlsplit(scene.lake.uri).path)
    before = sorted(folder.rglob("*"))
    preview = preview_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert sorted(folder.rglob("*")) == before
    stored = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    moves, previewed = ([(s.bundle, s.source, s.destination) for s in made.steps] for made in (stored, preview))
    assert moves == previewed
    assert len(moves) == 3


def test_rollback_that_was_never_begun_may_be_planned_anew(scene: Scene) -> None:
    run = scene.apply(scene.store_run_plan(3))
    first = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    second = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert len(first.steps) == len(second.steps) == 3


def test_what_a_first_rollback_had_to_leave_goes_back_with_a_second(scene: Scene) -> None:
    run = scene.apply(scene.store_run_plan(3))
    away = run.results[0].source
    stays = {result.bundle for result in run.results if result.source == away}
    others = {result.bundle for result in run.results} - stays
    assert others, "the run took from several brokers"
    mark_brokers(scene.connection, [away], "ada", "a new disk")
    first = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert {step.bundle for step in first.steps} == others
    assert {(row.bundle, row.rule) for row in first.rejections} == {(bundle, "not-active") for bundle in stays}
    assert scene.apply(first.plan_id).count(StepState.SETTLED) == len(others)
    too_early = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert (too_early.steps, {row.bundle for row in too_early.rejections}) == ([], stays), "told why, not refused"
    unmark_brokers(scene.connection, [away])
    second = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert {(step.bundle, step.destination) for step in second.steps} == {(bundle, away) for bundle in stays}
    assert scene.apply(second.plan_id).count(StepState.SETTLED) == len(stays)
    with pytest.raises(RefusedError, match="is rolled back already, by plan"):
        plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)


def test_bundle_that_went_back_and_was_brought_again_by_another_hand_stays(scene: Scene) -> None:
    run = scene.apply(scene.store_run_plan(1))
    (moved,) = run.results
    way_back = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    scene.apply(way_back.plan_id)
    wish = ManualRequest(StepKind.TRANSFER, moved.bundle, "bob", destination=moved.destination)
    assert scene.apply(plan_by_hand(scene.lake, scene.connection, SETTINGS, wish).plan_id).state is RunState.DONE
    with pytest.raises(RefusedError, match="is rolled back already, by plan"):
        plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)


def test_run_whose_rollback_was_rolled_back_can_be_rolled_back_once_more(scene: Scene) -> None:
    run = scene.apply(scene.store_run_plan(1))
    (moved,) = run.results
    there_and_back = run.run_id
    for _ in range(2):
        way_back = plan_rollback(scene.lake, there_and_back, scene.connection, SETTINGS)
        there_and_back = scene.apply(way_back.plan_id).run_id
    assert eventually(lambda: scene.fleet.owner_of(moved.bundle) == moved.destination)
    (step,) = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS).steps
    assert (step.bundle, step.destination) == (moved.bundle, moved.source)


def test_killed_run_without_a_record_is_listed_and_goes_back_by_its_journal(scene: Scene) -> None:
    plan_id = scene.store_run_plan(4)
    stored = PlanStore(scene.lake).load(plan_id)
    named = {name: getattr(scene.connection, name) for name in ("cluster", "zookeeper", "pulsar_root", "evenkeel_root")}
    arguments = [scene.lake.uri, plan_id, json.dumps(named)]
    killed = subprocess.run([sys.executable, "-c", KILLED_AFTER_ITS_FIRST_STEP, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert eventually(lambda: [listed.state for listed in scene.runs()] == ["interrupted"], within_s=30.0)
    (listed,) = scene.runs()
    assert (listed.plan_id, listed.settled) == (plan_id, 1)
    assert f"evenkeel apply {plan_id[:12]}" in listed.detail
    canary = stored.steps[0]
    way_back = plan_rollback(scene.lake, listed.run_id, scene.connection, SETTINGS)
    assert [(step.bundle, step.destination) for step in way_back.steps] == [(canary.bundle, canary.source)]
    assert scene.apply(way_back.plan_id).state is RunState.DONE
    assert eventually(lambda: scene.fleet.owner_of(canary.bundle) == canary.source)


def test_what_another_hand_moved_since_stays_and_is_told(scene: Scene) -> None:
    run = scene.apply(scene.store_run_plan(2))
    moved = run.results[0]
    elsewhere = next(b for b in (B1, B2, B3) if b not in (moved.source, moved.destination))
    wish = ManualRequest(StepKind.TRANSFER, moved.bundle, "bob", destination=elsewhere)
    scene.apply(plan_by_hand(scene.lake, scene.connection, SETTINGS, wish).plan_id)
    way_back = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert [step.bundle for step in way_back.steps] == [run.results[1].bundle]
    (row,) = way_back.rejections
    assert (row.rule, row.bundle) == ("moved-on", moved.bundle)


def test_run_that_nobody_knows_is_refused(scene: Scene, client: KazooClient) -> None:
    with pytest.raises(InputError, match="no run and no plan"):
        plan_rollback(scene.lake, "0000", scene.connection, SETTINGS)
    plan_id = scene.store_run_plan(1)
    with pytest.raises(RefusedError, match="records no step that was done"):
        plan_rollback(scene.lake, plan_id, scene.connection, SETTINGS)
    other = dataclasses.replace(scene.connection, cluster="other")
    with pytest.raises(RefusedError, match="was made on cluster 'fleet', not 'other'"):
        plan_rollback(scene.lake, plan_id, other, SETTINGS)
    assert client.exists(scene.connection.evenkeel_root) is None, "asking leaves nothing behind"


def test_unload_by_hand_takes_the_bundle_from_its_broker(scene: Scene) -> None:
    bundle = first_bundle(scene.fleet, B1)
    run = scene.apply(
        plan_by_hand(scene.lake, scene.connection, SETTINGS, ManualRequest(StepKind.UNLOAD, bundle, "ada")).plan_id
    )
    assert (run.state, run.count(StepState.SETTLED)) == (RunState.DONE, 1), run
    way_back = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert (way_back.steps, [row.rule for row in way_back.rejections]) == ([], ["unload"])


def test_split_by_hand_leaves_two_halves_and_is_not_undone(scene: Scene) -> None:
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    owned = rows(scene.lake, manifest, "bundles", Bundle)
    wide = next(b for b in owned if b.owner == B1 and b.topics > 1 and b.tenant != "pulsar")
    wish = ManualRequest(StepKind.SPLIT, wide.bundle, "ada", boundary=f"{wide.range_lower + 0x1000000:#010x}")
    run = scene.apply(plan_by_hand(scene.lake, scene.connection, SETTINGS, wish).plan_id)
    assert (run.state, run.count(StepState.SETTLED)) == (RunState.DONE, 1), run
    after = take_snapshot(scene.lake, scene.connection, SETTINGS)
    ranges = [b.range_lower for b in rows(scene.lake, after, "bundles", Bundle) if b.namespace == wide.namespace]
    assert wide.range_lower + 0x1000000 in ranges
    way_back = plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert (way_back.steps, [row.rule for row in way_back.rejections]) == ([], ["split"])
