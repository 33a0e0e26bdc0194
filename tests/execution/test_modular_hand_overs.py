"""Modular clusters: a lookup is not an owner, and equal ranges of two namespaces are never in flight together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from evenkeel.adapters.brokers.modular_transfer import MOST_TOPICS_WITHOUT_NOTE
from evenkeel.model.bundles import BundleName
from evenkeel.model.plan import Step
from evenkeel.model.run import RunRecord, RunState, StepState
from evenkeel.stages.snapshot import take_snapshot
from support.approvals import apply_plan
from support.plans import make_transfers
from support.scenes import SETTINGS, Scene


def settled(run: RunRecord) -> int:
    assert run.state is RunState.DONE, run
    return run.count(StepState.SETTLED)


def transfers(scene: Scene, count: int) -> list[Step]:
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    return list(make_transfers(scene.lake, manifest, count))


def many_topics(steps: list[Step]) -> list[Step]:
    """The same steps for bundles whose unload takes long, so that the leader is told where they go."""
    return [dataclasses.replace(step, topics=MOST_TOPICS_WITHOUT_NOTE + 1) for step in steps]


def test_leader_remembers_nothing_of_bundles_with_few_topics(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a leader remembers and nobody looks up would misdirect the bundle when Pulsar itself unloads it later."""
    scene = stage("modular", stale_lookup_s=0.4, clients_look_up_after_s=600.0)
    noted: list[str] = []
    monkeypatch.setattr(scene.fleet._running_manager(), "hint", lambda bundle, destination: noted.append(bundle))
    run = apply_plan(scene.lake, scene.plan(6), scene.connection, SETTINGS)
    assert settled(run) == 6
    assert scene.fleet.unloads() == {result.bundle: 1 for result in run.results}
    assert noted == []


def test_lookup_that_names_the_old_owner_does_not_take_the_bundle_from_its_destination(
    stage: Callable[..., Scene],
) -> None:
    """As seen on 4.2.4: the destination names the old owner from its cache, and owns the bundle 230 ms later."""
    scene = stage("modular", stale_lookup_s=0.4, clients_look_up_after_s=0.23)
    plan_id = scene.store(many_topics(transfers(scene, 6)))
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    assert settled(run) == 6
    assert scene.fleet.unloads() == {result.bundle: 1 for result in run.results}, "each client is cut off once"
    assert [result.detail for result in run.results] == [f"owned by {r.destination}, 1 unload" for r in run.results]
    assert {entry["detail"] for entry in scene.journal(plan_id)} == {r.detail for r in run.results}


def test_equal_ranges_of_two_namespaces_are_never_in_flight_together(stage: Callable[..., Scene]) -> None:
    """As seen up to 4.0.9 and 4.2.0: the leader remembers a destination by range only, and swaps the two."""
    scene = stage("modular", remembers_ranges_only=True, hand_over_delay_s=0.1)
    plan_id = scene.store(pairs_of_equal_ranges(scene))
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    assert settled(run) == 8
    assert {r.bundle: scene.fleet.owner_of(r.bundle) for r in run.results} == {
        r.bundle: r.destination for r in run.results
    }
    assert set(scene.fleet.unloads().values()) == {1}, "no bundle went astray on its way"


def pairs_of_equal_ranges(scene: Scene) -> list[Step]:
    """Transfers of a wave in which every range occurs twice, with two different destinations."""
    by_range: dict[str, list[Step]] = {}
    for step in transfers(scene, 24):
        by_range.setdefault(str(BundleName.parse(step.bundle).range), []).append(step)
    pairs = [pair for same in by_range.values() if (pair := two_destinations(same))]
    steps = [step for pair in pairs[:4] for step in pair]
    assert len(steps) == 8
    return many_topics([dataclasses.replace(step, order=order, wave=0) for order, step in enumerate(steps)])


def two_destinations(steps: list[Step]) -> tuple[Step, Step] | None:
    first = steps[0]
    return next(((first, other) for other in steps if other.destination != first.destination), None)


def test_bundle_that_went_elsewhere_is_unloaded_again_once_its_clients_have_settled(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first unload the leader takes the bundle itself; the second one comes later, and is counted."""
    scene = stage("modular", clients_look_up_after_s=600.0)
    manager = scene.fleet._running_manager()
    leader = scene.fleet.leader()
    assert leader is not None
    hint, taken = manager.hint, []  # type: ignore[attr-defined]

    def take_first(bundle: str, destination: str) -> None:
        hint(bundle, destination if taken else leader)
        taken.append(bundle)

    monkeypatch.setattr(manager, "hint", take_first)
    step = next(step for step in transfers(scene, 24) if step.destination != leader)
    plan_id = scene.store(many_topics([dataclasses.replace(step, order=0, wave=0)]))
    settings = dataclasses.replace(SETTINGS, unload_again_after_s=1.0)
    run = apply_plan(scene.lake, plan_id, scene.connection, settings)
    assert settled(run) == 1
    assert scene.fleet.unloads() == {run.results[0].bundle: 2}
    assert run.results[0].detail.endswith(", 2 unloads")


def test_leader_that_is_named_by_its_address_only_is_recognised(stage: Callable[..., Scene]) -> None:
    """As on 3.0.0 to 3.0.2, where every run was refused with "the cluster has no leader now"."""
    scene = stage("modular", names_leader_by_url=True)
    run = apply_plan(scene.lake, scene.plan(2), scene.connection, SETTINGS)
    assert settled(run) == 2
