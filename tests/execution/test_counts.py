"""What a run says of itself: what it did and what it found done, which steps it skipped, and what a dry run misses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.cli.runs import summarise_run
from evenkeel.execution.results import tell_skipped
from evenkeel.model.errors import RefusedError
from evenkeel.model.run import RunState, StepResult, StepState
from evenkeel.model.run_events import rebuild_run
from support.approvals import apply_plan
from support.scenes import SETTINGS, Scene


class InterruptionError(Exception):
    """Stands for whatever kills a writer."""


def test_counts_are_of_this_run_and_what_was_settled_before_is_told_apart(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id = scene.plan(4)
    with monkeypatch.context() as patch:
        patch.setattr("evenkeel.execution.run.Run.apply_wave", stop_after_first(scene))
        with pytest.raises(InterruptionError):
            scene.apply(plan_id)
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    told = summarise_run(run)
    assert (run.state, run.count(StepState.SETTLED)) == (RunState.DONE, 4), run
    assert (told["applied"], told["settled"], told["settled_before"], told["skipped"]) == (3, 3, 1, 0)
    again = rebuild_run(RunStore(scene.lake).read_events(run.run_id))
    assert summarise_run(again) == told, "the record of the run tells the same"


def stop_after_first(scene: Scene) -> Callable[..., None]:
    from evenkeel.execution.run import Run

    real, waves = Run.apply_wave, []

    def apply_wave(run: Run, wave: object) -> None:
        if waves:
            raise InterruptionError
        waves.append(wave)
        real(run, wave)  # type: ignore[arg-type]

    return apply_wave


def test_finished_plan_that_is_applied_again_says_so_and_writes_nothing(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(2)
    first = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    nodes = {path: scene.client.exists(f"{scene.connection.home}/{path}") for path in ("fence", f"plans/{plan_id}")}
    again = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    assert (again.state, again.detail) == (RunState.DONE, f"already applied by run {first.run_id}: nothing to do")
    told = summarise_run(again)
    assert (told["applied"], told["settled"], told["settled_before"]) == (0, 0, 2)
    assert nodes == {path: scene.client.exists(f"{scene.connection.home}/{path}") for path in nodes}
    assert RunStore(scene.lake).ids() == [first.run_id]
    assert RunStore(scene.lake).load(first.run_id) == first


def test_run_with_skipped_steps_is_not_plainly_done(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(5)
    steps = PlanStore(scene.lake).load(plan_id).steps
    namespace = steps[1].bundle.rpartition("/")[0]
    scene.client.delete(f"{scene.connection.pulsar_root}/admin/local-policies/{namespace}")
    skipped = sum(step.bundle.startswith(f"{namespace}/") for step in steps)
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    told = f"{5 - skipped} of 5 steps settled, {skipped} skipped, because namespace {namespace} was deleted"
    assert (run.state, run.detail) == (RunState.DONE, told)
    assert scene.status(plan_id).detail == told


def test_commonest_reason_for_skipping_is_told() -> None:
    reasons = ["b1 has restarted", "a was deleted", "a was deleted"]
    results = [StepResult(n, "t/n/x", "a", "b", StepState.SKIPPED, why) for n, why in enumerate(reasons)]
    results.append(StepResult(3, "t/n/y", "a", "b", StepState.SETTLED, ""))
    assert tell_skipped(results, 4) == "1 of 4 steps settled, 3 skipped, 2 of them because a was deleted"
    assert tell_skipped(results[3:], 1) == ""


def test_dry_run_needs_no_approval_and_says_that_it_is_missing(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(2, is_approved=False)
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS, dry_run=True)
    assert (run.state, run.count(StepState.PROVED)) == (RunState.DONE, 2), run
    assert f"still missing: plan {plan_id[:12]} is not approved" in run.detail
    assert scene.is_untouched
    with pytest.raises(RefusedError, match="is not approved"):
        scene.apply(plan_id)


def test_dry_run_of_a_plan_that_the_gate_has_not_passed_is_refused(stage: Callable[..., Scene]) -> None:
    scene = stage()
    with pytest.raises(RefusedError, match="has not passed the gate"):
        scene.apply(scene.plan(2, is_passed=None, is_approved=False), dry_run=True)
