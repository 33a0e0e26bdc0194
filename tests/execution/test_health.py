"""After each wave the cluster must look as it should, or the line is stopped with the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from evenkeel.adapters.cluster.views import ZooKeeperClusterView
from evenkeel.execution.health import find_broker_fault, find_load_fault, find_unplanned_move, predict
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import BrokerBalance, Step, StepKind
from evenkeel.model.run import RunState, StepResult, StepState
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.stages.snapshot import take_snapshot
from support.approvals import apply_plan
from support.fleets import write_release
from support.plans import make_transfers, store_plan
from support.scenes import SETTINGS, Scene
from support.waiting import eventually

STEP = Step(
    order=0,
    wave=0,
    kind=StepKind.TRANSFER,
    bundle="t/n/0x00000000_0xffffffff",
    source="a:1",
    source_incarnation=10,
    destination="c:1",
    destination_incarnation=30,
    expected_version_id=5,
    throughput_in_bytes_per_s=100,
    throughput_out_bytes_per_s=200,
    cpu_millipercent=1_000,
    topics=1,
    sessions=1,
    disruption_client_ms=0,
    reason="",
)


@pytest.mark.parametrize(
    ("now", "fault"),
    [
        ({"a:1": 10, "c:1": 30}, None),
        ({"a:1": 10, "c:1": 30, "new:1": 99}, None),
        ({"a:1": 10}, "broker c:1 is no longer registered"),
        (
            {"a:1": 11, "c:1": 30},
            "broker a:1 has restarted during the run: incarnation 11, it was 10",
        ),
    ],
)
def test_brokers_must_be_the_same_as_at_first(now: dict[str, int], fault: str | None) -> None:
    assert find_broker_fault({"a:1": 10, "c:1": 30}, now) == fault


@pytest.mark.parametrize(
    ("state", "owner", "is_fault"),
    [
        (ServiceUnitState.OWNED, "c:1", False),
        (ServiceUnitState.OWNED, "a:1", True),
        (ServiceUnitState.RELEASING, "c:1", True),
        (ServiceUnitState.INIT, None, True),
    ],
)
def test_settled_bundle_must_stay_where_it_was_put(state: ServiceUnitState, owner: str | None, is_fault: bool) -> None:
    fault = find_unplanned_move([STEP], {STEP.bundle: BundleView(STEP.bundle, state, owner)})
    assert (fault is not None) == is_fault
    assert find_unplanned_move([STEP], {}) is None, "a bundle that nothing has happened to is not looked at"


def balance(broker: str, resource: str, used: int, limit: int = 10_000) -> BrokerBalance:
    return BrokerBalance(broker, "pool", resource, limit, used, used, limit)


def test_load_is_predicted_from_what_has_settled() -> None:
    rows = [balance("a:1", "cpu", 5_000), balance("c:1", "cpu", 2_000), balance("c:1", "bandwidth_out", 50)]
    predicted = predict(rows, [STEP])
    assert predicted == {("a:1", "cpu"): 4_000, ("c:1", "cpu"): 3_000, ("c:1", "bandwidth_out"): 250}
    assert predict(rows, [dataclasses.replace(STEP, kind=StepKind.SPLIT)])["a:1", "cpu"] == 5_000


@pytest.mark.parametrize(("realised", "is_fault"), [(3_000, False), (4_000, False), (4_001, True), (0, False)])
def test_load_beyond_the_predictions_error_is_a_fault(realised: int, is_fault: bool) -> None:
    rows = [balance("c:1", "cpu", 2_000)]
    fault = find_load_fault(rows, predict(rows, [STEP]), {("c:1", "cpu"): realised}, 0.1)
    assert (fault is not None) == is_fault
    assert find_load_fault(rows, predict(rows, [STEP]), {}, 0.1) is None, "load that nobody reports proves nothing"


def test_settled_bundle_that_another_hand_moves_on_stops_the_line(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(6)

    def move_on(result: StepResult) -> None:
        if result.order == 0:
            third = next(b for b in scene.fleet.broker_ids if b not in (result.source, result.destination))
            write_release(scene.client, scene.connection.pulsar_root, result.bundle, third)
            assert eventually(lambda: scene.fleet.owner_of(result.bundle) == third)

    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS, on_progress=move_on)
    assert run.state is RunState.STOPPED
    assert "was moved by somebody else: it is Owned" in run.detail
    assert [result.order for result in run.results] == [0], "the canary's wave is the last one"


def test_broker_that_restarts_during_the_run_stops_the_line(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(6)

    def restart(result: StepResult) -> None:
        if result.order == 0:
            scene.fleet.restart_broker(str(result.destination))

    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS, on_progress=restart)
    assert run.state is RunState.STOPPED
    assert "has restarted during the run" in run.detail
    assert [result.state for result in run.results] == [StepState.SETTLED]


def test_cluster_without_a_leader_stops_the_line_also_when_the_plan_is_applied_again(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id = scene.plan(3)
    before_the_canary = iter(["b00.fleet:8080"])
    monkeypatch.setattr(ZooKeeperClusterView, "leader", lambda view: next(before_the_canary, None))
    for _ in range(2):
        run = scene.run(plan_id)
        assert (run.state, len(run.results)) == (RunState.STOPPED, 1)
        assert "the cluster has no leader now" in run.detail


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_leader_is_found_where_each_kind_keeps_it(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    run = scene.run(scene.plan(2))
    assert run.state is RunState.DONE, run.detail


def test_load_that_the_plan_did_not_foresee_stops_the_line(stage: Callable[..., Scene]) -> None:
    scene = stage()
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    steps = make_transfers(scene.lake, manifest, 3)
    foreseen = [balance(str(steps[0].destination), "bandwidth_in", 0, limit=1)]
    plan_id = store_plan(scene.lake, manifest, steps, balances=foreseen)
    assert scene.run(plan_id, health_load_error=0.5).state is RunState.STOPPED
    run = scene.run(plan_id)
    assert run.state is RunState.DONE, "unless it is asked for, the load is not looked at"
