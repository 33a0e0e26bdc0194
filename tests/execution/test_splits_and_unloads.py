"""Splits with their children's transfers, and unloads, on fleets of both kinds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

from evenkeel.execution.steps import build_record, bundles_of, children_of, find_end, find_obstacle
from evenkeel.model.bundles import BundleName
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.run import RunState, StepState
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.stages.snapshot import take_snapshot
from support.plans import make_split, make_transfers, make_unload, store_plan
from support.scenes import SETTINGS, Scene
from support.waiting import eventually

KINDS = ("extensible", "modular")
BUNDLE = "t/n/0x00000000_0x40000000"
LOWER, UPPER = "t/n/0x00000000_0x20000000", "t/n/0x20000000_0x40000000"
CUT = 0x20000000


def plan_split_and_move(scene: Scene) -> tuple[str, Step, Step]:
    """A plan that splits a bundle and moves the upper child."""
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    (transfer,) = make_transfers(scene.lake, manifest, 1)
    split = make_split(transfer)
    version = None if transfer.expected_version_id is None else 1
    child = dataclasses.replace(transfer, order=1, wave=1, bundle=children_of(split)[1], expected_version_id=version)
    return store_plan(scene.lake, manifest, [split, child]), split, child


@pytest.mark.parametrize("kind", KINDS)
def test_split_settles_and_its_child_moves(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    plan_id, split, child = plan_split_and_move(scene)
    run = scene.run(plan_id)
    assert (run.state, [r.state for r in run.results]) == (RunState.DONE, [StepState.SETTLED] * 2), run
    lower, upper = children_of(split)
    assert eventually(lambda: scene.fleet.owner_of(upper) == child.destination)
    assert scene.fleet.owner_of(lower) == split.source
    namespace = BundleName.parse(split.bundle).namespace
    path = f"{scene.connection.pulsar_root}/admin/local-policies/{namespace}"
    boundaries = json.loads(scene.client.get(path)[0])["bundles"]["boundaries"]
    assert f"0x{split.split_boundary:08x}" in boundaries


def test_split_writes_one_record_with_two_children_and_no_destination(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id, split, _ = plan_split_and_move(scene)
    run = scene.run(plan_id)
    begun = [e for e in scene_events(scene, run.run_id) if e.order == 0 and e.decision == "applied"]
    record = ServiceUnitRecord.decode(str(begun[0].after).encode(), "the event")
    assert (record.state, record.source, record.destination) == (ServiceUnitState.SPLITTING, split.source, None)
    assert record.children == {name.rpartition("/")[2]: None for name in children_of(split)}
    assert record.version_id == (split.expected_version_id or 0) + 1


def scene_events(scene: Scene, run_id: str) -> list[object]:
    from evenkeel.adapters.lake.runs import RunStore

    return RunStore(scene.lake).read_events(run_id)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", KINDS)
def test_second_run_of_a_plan_with_a_split_repeats_nothing(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    plan_id, _, _ = plan_split_and_move(scene)
    scene.run(plan_id)
    again = scene.run(plan_id)
    assert again.state is RunState.DONE, again
    assert all("by an earlier run" in result.detail for result in again.results)


@pytest.mark.parametrize("kind", KINDS)
def test_unload_settles_without_its_source(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind, clients_look_up_after_s=2.0)
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    (transfer,) = make_transfers(scene.lake, manifest, 1)
    run = scene.run(store_plan(scene.lake, manifest, [make_unload(transfer)]))
    assert (run.state, [r.state for r in run.results]) == (RunState.DONE, [StepState.SETTLED]), run
    assert eventually(lambda: scene.fleet.owner_of(transfer.bundle) is not None)


def test_split_of_a_bundle_that_is_gone_is_skipped(
    stage: Callable[..., Scene],
) -> None:
    scene = stage()
    plan_id, split, _ = plan_split_and_move(scene)
    scene.run(plan_id)
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    run = scene.run(store_plan(scene.lake, manifest, [split]))
    assert [(r.state, r.detail) for r in run.results] == [
        (StepState.SKIPPED, f"the bundle was split at 0x{split.split_boundary:08x}")
    ]


# One step at a time, without a cluster.


def step(kind: StepKind, **changes: object) -> Step:
    made = Step(
        order=0,
        wave=0,
        kind=kind,
        bundle=BUNDLE,
        source="a:1",
        source_incarnation=10,
        destination="c:1" if kind is StepKind.TRANSFER else None,
        destination_incarnation=30 if kind is StepKind.TRANSFER else None,
        expected_version_id=5,
        throughput_in_bytes_per_s=0,
        throughput_out_bytes_per_s=0,
        cpu_millipercent=0,
        topics=1,
        sessions=1,
        disruption_client_ms=0,
        reason="",
        split_boundary=CUT if kind is StepKind.SPLIT else None,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def owned(bundle: str, owner: str, version: int = 5) -> BundleView:
    record = ServiceUnitRecord(ServiceUnitState.OWNED, 1, version, destination=owner)
    return BundleView(bundle, ServiceUnitState.OWNED, owner, 3, record)


def bare(bundle: str, state: ServiceUnitState) -> BundleView:
    return BundleView(bundle, state, None)


SPLIT, UNLOAD, TRANSFER = step(StepKind.SPLIT), step(StepKind.UNLOAD), step(StepKind.TRANSFER)
RING = {0, 0x40000000, 0xFFFFFFFF}
GONE, FREE = ServiceUnitState.INIT, ServiceUnitState.FREE


@pytest.mark.parametrize(
    ("planned", "boundaries", "obstacle"),
    [
        (SPLIT, RING, None),
        (SPLIT, RING | {CUT}, f"the bundle was split at 0x{CUT:08x}"),
        (SPLIT, {0, 0xFFFFFFFF}, "the bundle is not one of its namespace's bundles"),
        (
            dataclasses.replace(SPLIT, split_boundary=0x40000000),
            RING,
            "the boundary is not inside the bundle's range",
        ),
        (dataclasses.replace(SPLIT, split_boundary=None), RING, "the boundary is not inside the bundle's range"),
        (UNLOAD, RING, None),
        (UNLOAD, (), "namespace t/n was deleted"),
        (TRANSFER, RING | {0x100, 0x200}, "the bundle was split at 2 boundaries"),
        (dataclasses.replace(UNLOAD, destination="c:1"), (), "an unload takes no destination"),
        (dataclasses.replace(TRANSFER, destination=None), (), "the transfer names no destination"),
        (dataclasses.replace(TRANSFER, kind="merge"), (), "this version does not support steps of kind merge"),
    ],
)
def test_what_a_kind_of_step_needs_before_it(planned: Step, boundaries: set[int], obstacle: str | None) -> None:
    assert find_obstacle(planned, owned(BUNDLE, "a:1"), {"a:1": 10, "c:1": 30}, boundaries) == obstacle


def test_broker_that_is_being_drained_receives_nothing_and_may_give() -> None:
    proved = [(TRANSFER, ["c:1"]), (TRANSFER, ["a:1"]), (UNLOAD, ["a:1"])]
    found = [
        find_obstacle(s, owned(BUNDLE, "a:1"), {"a:1": 10, "c:1": 30}, RING, draining=marked) for s, marked in proved
    ]
    assert found == ["broker c:1 is being drained", None, None]


@pytest.mark.parametrize(
    ("planned", "views", "boundaries", "state"),
    [
        (TRANSFER, [owned(BUNDLE, "a:1")], (), None),
        (TRANSFER, [owned(BUNDLE, "c:1", 8)], (), StepState.SETTLED),
        (TRANSFER, [owned(BUNDLE, "d:1", 8)], (), StepState.FAILED),
        (TRANSFER, [owned(BUNDLE, "a:1", 7)], (), StepState.FAILED),
        (UNLOAD, [owned(BUNDLE, "a:1")], (), None),
        (UNLOAD, [bare(BUNDLE, FREE)], (), StepState.SETTLED),
        (UNLOAD, [bare(BUNDLE, GONE)], (), StepState.SETTLED),
        (UNLOAD, [owned(BUNDLE, "d:1", 9)], (), StepState.SETTLED),
        (UNLOAD, [owned(BUNDLE, "a:1", 9)], (), StepState.SETTLED),
        (SPLIT, [bare(BUNDLE, GONE), owned(LOWER, "a:1", 1), owned(UPPER, "a:1", 1)], RING | {CUT}, StepState.SETTLED),
        (SPLIT, [bare(BUNDLE, GONE), owned(LOWER, "a:1", 1), owned(UPPER, "a:1", 1)], RING, None),
        (SPLIT, [bare(BUNDLE, GONE), owned(LOWER, "a:1", 1), bare(UPPER, GONE)], RING | {CUT}, None),
        (SPLIT, [owned(BUNDLE, "a:1"), owned(LOWER, "a:1", 1), owned(UPPER, "a:1", 1)], RING | {CUT}, None),
        (SPLIT, [owned(BUNDLE, "d:1", 7), bare(LOWER, GONE), bare(UPPER, GONE)], RING, StepState.FAILED),
        (SPLIT, [owned(BUNDLE, "a:1", 7), bare(LOWER, GONE), bare(UPPER, GONE)], RING, StepState.FAILED),
    ],
)
def test_end_of_each_kind_of_step(
    planned: Step, views: list[BundleView], boundaries: set[int], state: StepState | None
) -> None:
    assert [view.bundle for view in views] == list(bundles_of(planned))
    end = find_end(planned, {view.bundle: view for view in views}, boundaries)
    assert (None if end is None else end.state) is state


def test_record_of_an_unload_names_no_destination() -> None:
    record = build_record(UNLOAD, owned(BUNDLE, "a:1"), 7)
    assert record is not None
    assert (record.state, record.source, record.destination) == (ServiceUnitState.RELEASING, "a:1", None)
    assert (record.version_id, record.children, record.force) == (6, None, False)
