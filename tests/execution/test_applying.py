"""Applying a plan to a running fleet of either kind: effect, journal, guards and resumption."""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.adapters.brokers.admin_api import PulsarAdmin
from evenkeel.adapters.cluster.views import ZooKeeperClusterView
from evenkeel.adapters.fencing.directives import Draining
from evenkeel.adapters.fencing.journal import Journal
from evenkeel.adapters.fencing.step_writers import TransactionWriter
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.execution.run import Run
from evenkeel.model.directives import Directive
from evenkeel.model.errors import InputError, NotDoneError, RefusedError, UnavailableError
from evenkeel.model.run import RunState, StepState
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.model.snapshot import Broker, LoadManager
from evenkeel.model.timestamps import parse_time
from evenkeel.stages.snapshot import take_snapshot
from evenkeel.stages.verify import verify_run
from support.approvals import apply_plan
from support.plans import make_transfers, rows, store_plan
from support.proxies import CuttingProxy
from support.scenes import SETTINGS, Scene
from support.waiting import eventually, scaled

KINDS = ("extensible", "modular")


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_settles_and_the_realised_owner_is_the_planned_one(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind, report_interval_s=0.2, report_max_interval_s=0.5)
    plan_id = scene.plan(6)
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    assert (run.state, run.count(StepState.SETTLED)) == (RunState.DONE, 6), run
    assert eventually(lambda: all(scene.fleet.owner_of(r.bundle) == r.destination for r in run.results))
    assert {entry["state"] for entry in scene.journal(plan_id)} == {"settled"}
    verification = verify_run(scene.lake, run.run_id, scene.connection, SETTINGS)
    assert verification.passed, verification.deviations
    manifest = SnapshotStore(scene.lake).load(scene.connection.cluster, verification.snapshot_id)
    told = {b.broker_id: b.reported_at for b in rows(scene.lake, manifest, "brokers", Broker)}
    touched = {broker for result in run.results for broker in (result.source, result.destination)}
    assert all(told[broker] >= parse_time(run.ended_at) for broker in touched), (
        "load from before the run proves nothing"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_second_run_of_a_plan_repeats_nothing(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    plan_id = scene.plan(3)
    first = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    path = f"{scene.connection.pulsar_root}/admin/configuration"
    before = scene.client.exists(path)
    second = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    assert second.run_id == first.run_id
    assert second.detail == f"already applied by run {first.run_id}: nothing to do"
    assert all("by an earlier run" in result.detail for result in second.results)
    assert (second.count(StepState.SETTLED), second.count_own(StepState.SETTLED)) == (3, 0)
    assert {entry["epoch"] for entry in scene.journal(plan_id)} == {first.epoch}
    assert scene.client.exists(path) == before


def test_step_is_one_transaction_whose_record_follows_the_state_machine(stage: Callable[..., Scene]) -> None:
    scene = stage(hand_over_delay_s=scaled(30.0))
    settings = dataclasses.replace(SETTINGS, step_deadline_s=1.0)
    plan_id = scene.plan(1)
    run = apply_plan(scene.lake, plan_id, scene.connection, settings)
    (result,) = run.results
    path = f"{scene.connection.pulsar_root}/service_unit_state/{result.bundle}"
    data, stat = scene.client.get(path)
    record = ServiceUnitRecord.decode(data, path)
    journalled = scene.client.exists(f"{scene.connection.home}/plans/{plan_id}/steps/000000")
    assert record.state is ServiceUnitState.RELEASING
    assert (record.source, record.destination, record.force) == (result.source, result.destination, False)
    assert journalled.czxid == stat.mzxid, "effect and journal entry must be one transaction"


def test_deadline_stops_the_line_and_leaves_the_bundle_alone(stage: Callable[..., Scene]) -> None:
    scene = stage(hand_over_delay_s=scaled(30.0))
    settings = dataclasses.replace(SETTINGS, step_deadline_s=1.0)
    run = apply_plan(scene.lake, scene.plan(5), scene.connection, settings)
    assert run.state is RunState.STOPPED
    assert [result.state for result in run.results] == [StepState.FAILED], "the canary failed, so nothing else began"
    assert "not settled within 1 s" in run.detail


def test_open_step_of_a_dead_run_is_awaited_not_repeated(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=scaled(1.0))
    plan_id = scene.plan(1)

    def crash(view: ZooKeeperClusterView, timeout_s: float) -> frozenset[str]:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(ZooKeeperClusterView, "next_changes", crash)
        with pytest.raises(ZeroDivisionError):
            apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    (left_open,) = scene.journal(plan_id)
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    (settled,) = scene.journal(plan_id)
    path = f"{scene.connection.pulsar_root}/service_unit_state/{left_open['bundle']}"
    record = ServiceUnitRecord.decode(scene.client.get(path)[0], path)
    (step,) = PlanStore(scene.lake).load(plan_id).steps
    assert (left_open["state"], settled["state"]) == ("applied", "settled")
    assert run.count(StepState.SETTLED) == 1
    assert step.expected_version_id is not None
    assert record.version_id == step.expected_version_id + 3, (
        "one transfer is three changes; a repeated one would be six"
    )


def test_restarted_broker_is_refused_by_name(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(24)
    scene.fleet.restart_broker("b02.fleet:8080")
    state, results, _ = scene.apply(plan_id)
    assert state is RunState.DONE
    touched = [r for r in results if "b02.fleet:8080" in (r.source, r.destination)]
    assert touched
    assert all(result.state is StepState.SKIPPED for result in touched)
    assert any("b02.fleet:8080 has restarted" in result.detail for result in touched)


def test_bundle_that_another_hand_moved_is_skipped_with_the_reason(stage: Callable[..., Scene]) -> None:
    scene = stage()
    first = scene.plan(2)
    second = store_copy(scene, first)
    scene.apply(first)
    state, results, _ = scene.apply(second)
    assert state is RunState.DONE
    assert [r.state for r in results] == [StepState.SKIPPED] * 2
    assert all("is owned by" in r.detail for r in results)
    assert [entry["state"] for entry in scene.journal(second)] == ["skipped"] * 2


def store_copy(scene: Scene, plan_id: str) -> str:
    """The same steps as another plan: it expires at another time, so it has another id."""
    stored = PlanStore(scene.lake).load(plan_id)
    manifest = SnapshotStore(scene.lake).load(stored.plan.cluster, stored.plan.snapshot_id)
    return store_plan(scene.lake, manifest, stored.steps, expires_at=datetime.now(UTC) + timedelta(hours=2))


def test_policy_that_changed_since_the_snapshot_stops_the_run(stage: Callable[..., Scene]) -> None:
    scene = stage(brokers=6)
    plan_id = scene.plan(2)
    path = f"{scene.connection.pulsar_root}/admin/clusters/{scene.connection.cluster}/namespaceIsolationPolicies"
    scene.client.set(path, scene.client.get(path)[0])
    state, results, detail = scene.apply(plan_id)
    assert (state, results) == (RunState.STOPPED, [])
    assert "namespaceIsolationPolicies has changed since the snapshot" in detail


def test_kill_switch_stops_the_run_before_its_first_step(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(2)
    scene.client.create(f"{scene.connection.home}/stop", b"", makepath=True)
    state, results, detail = scene.apply(plan_id)
    assert (state, results) == (RunState.STOPPED, [])
    assert "an operator has stopped all writing" in detail


@pytest.mark.parametrize("kind", KINDS)
def test_broker_that_was_marked_for_draining_since_the_plan_receives_nothing(
    stage: Callable[..., Scene], kind: str
) -> None:
    scene = stage(kind)
    plan_id = scene.plan(4)
    marked = str(PlanStore(scene.lake).load(plan_id).steps[0].destination)
    with ZooKeeperSession(scene.connection.zookeeper, 10.0, 10.0) as session:
        Draining(session, scene.connection).mark([marked], Directive("operator", "2026-11-16T00:00:00Z", "maintenance"))
    state, results, detail = scene.apply(plan_id)
    assert state is RunState.DONE, detail
    for result in results:
        is_marked = result.destination == marked
        assert result.state is (StepState.SKIPPED if is_marked else StepState.SETTLED), result
        assert (result.detail == f"broker {marked} is being drained") is is_marked


def test_kill_switch_leaves_pulsars_balancer_alone(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(2)
    before = scene.client.exists(scene.switches_path).version
    scene.client.create(f"{scene.connection.home}/stop", b"", makepath=True)
    assert scene.apply(plan_id)[0] is RunState.STOPPED
    assert scene.client.exists(scene.switches_path).version == before


def test_step_that_got_lost_on_its_way_is_proved_anew(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    proofs: list[int] = []
    prove = Run._prove
    monkeypatch.setattr(Run, "_prove", lambda run, batch: proofs.append(len(batch)) or prove(run, batch))
    with CuttingProxy(scene.connection.zookeeper) as proxy:
        proxy.lose_answer_to(b"Releasing", swallow=True)
        through_proxy = dataclasses.replace(scene.connection, zookeeper=proxy.connect_string)
        run = apply_plan(scene.lake, plan_id, through_proxy, SETTINGS)
        assert proxy.cuts == 1
    assert (run.state, run.count(StepState.SETTLED)) == (RunState.DONE, 1), run.detail
    assert proofs == [1, 1], "what was proved before the connection was lost has grown old"


def test_step_that_gets_lost_again_and_again_stops_the_run(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    lost = NotDoneError("the step got lost", "see why")
    with monkeypatch.context() as patch:
        patch.setattr(TransactionWriter, "begin", lambda writer, starts: {s.step.order: lost for s in starts})
        state, results, detail = scene.apply(plan_id)
    assert (state, results) == (RunState.STOPPED, [])
    assert "step 0 got lost 3 times on its way to ZooKeeper" in detail
    assert scene.journal(plan_id) == []
    assert scene.apply(plan_id)[0] is RunState.DONE, "nothing was begun, so the next run begins it"


@pytest.mark.parametrize("kind", KINDS)
def test_dry_run_proves_every_step_and_writes_nothing(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    plan_id = scene.plan(4)
    state, results, _ = scene.apply(plan_id, dry_run=True)
    assert (state, [r.state for r in results]) == (RunState.DONE, [StepState.PROVED] * 4)
    assert scene.is_untouched
    assert [scene.fleet.owner_of(r.bundle) for r in results] == [r.source for r in results]


def test_unapproved_plan_is_refused_and_nothing_is_written(stage: Callable[..., Scene]) -> None:
    scene = stage()
    with pytest.raises(RefusedError, match="is not approved: have someone run `evenkeel approve"):
        scene.apply(scene.plan(1, is_approved=False))
    assert scene.is_untouched


def test_expired_plan_is_refused_and_nothing_is_written(stage: Callable[..., Scene]) -> None:
    scene = stage()
    with pytest.raises(RefusedError, match="expired at .*: take a new snapshot and plan again"):
        scene.apply(scene.plan(1, expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    assert scene.is_untouched


def test_plan_that_the_gate_blocks_or_never_saw_is_refused(stage: Callable[..., Scene]) -> None:
    scene = stage()
    with pytest.raises(RefusedError, match="the gate blocks plan"):
        scene.apply(scene.plan(1, is_passed=False))
    with pytest.raises(RefusedError, match="has not passed the gate"):
        scene.apply(scene.plan(2, is_passed=None))
    assert scene.is_untouched


def test_plan_for_another_cluster_is_refused(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    elsewhere = dataclasses.replace(scene.connection, cluster="elsewhere")
    with pytest.raises(RefusedError, match="is for cluster 'fleet', not 'elsewhere'"):
        apply_plan(scene.lake, plan_id, elsewhere, SETTINGS)
    assert scene.is_untouched


def test_plan_id_that_does_not_match_its_bytes_is_refused(stage: Callable[..., Scene], tmp_path: Path) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    file = tmp_path / "lake" / "plans" / plan_id / "plan.json"
    file.write_bytes(file.read_bytes().replace(b'"truncated":false', b'"truncated":true '))
    with pytest.raises(InputError, match=f"plan id {plan_id} does not match the bytes of its plan.json: plan again"):
        scene.apply(plan_id)
    assert scene.is_untouched


def test_plan_for_another_kind_of_cluster_is_refused(stage: Callable[..., Scene]) -> None:
    scene = stage("extensible")
    manifest = dataclasses.replace(
        take_snapshot(scene.lake, scene.connection, SETTINGS), load_manager=LoadManager.MODULAR
    )
    plan_id = store_plan(scene.lake, manifest, make_transfers(scene.lake, manifest, 1))
    with pytest.raises(RefusedError, match="made for a cluster of kind modular, this one is extensible: plan again"):
        scene.apply(plan_id)
    assert scene.is_untouched


def test_lost_connection_drops_the_watches_and_the_step_still_settles(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=scaled(1.0))
    plan_id = scene.plan(1)
    cut = []
    next_changes = ZooKeeperClusterView.next_changes

    def cut_once(view: ZooKeeperClusterView, timeout_s: float) -> frozenset[str]:
        if not cut:
            cut.append(view)
            client = view._session._client
            client._connection._socket.shutdown(socket.SHUT_RDWR)
        return next_changes(view, timeout_s)

    monkeypatch.setattr(ZooKeeperClusterView, "next_changes", cut_once)
    state, results, detail = scene.apply(plan_id)
    assert cut
    assert (state, [r.state for r in results]) == (RunState.DONE, [StepState.SETTLED]), detail


def leave_an_intent(scene: Scene, plan_id: str, monkeypatch: pytest.MonkeyPatch, dies_in: str) -> None:
    """Apply a plan of one step with a writer that dies in a method of its admin client."""

    def die(*_: object) -> None:
        raise UnavailableError("the writer is gone", "see why")

    with monkeypatch.context() as patch:
        patch.setattr(PulsarAdmin, dies_in, die)
        run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    assert (run.state, [r.state for r in run.results]) == (RunState.STOPPED, [StepState.INTENDED])


def test_intent_whose_call_was_never_made_is_called_by_the_next_run(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage("modular")
    plan_id = scene.plan(1)
    leave_an_intent(scene, plan_id, monkeypatch, "unload")
    run = scene.run(plan_id, admin_call_timeout_s=1.0)
    assert (run.state, [r.state for r in run.results]) == (RunState.DONE, [StepState.SETTLED])
    assert [entry["epoch"] for entry in scene.journal(plan_id)] == [run.epoch]


def test_intent_whose_call_took_effect_without_a_lookup_is_driven_home_by_the_next_run(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage("modular", clients_look_up_after_s=600.0)
    plan_id = scene.plan(1)
    leave_an_intent(scene, plan_id, monkeypatch, "take")
    run = scene.run(plan_id, admin_call_timeout_s=1.0)
    (result,) = run.results
    assert (run.state, result.state) == (RunState.DONE, StepState.SETTLED), result
    assert scene.fleet.owner_of(result.bundle) == result.destination


def test_writer_that_was_stopped_between_intent_and_call_for_long_makes_no_call(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage("modular")
    plan_id = scene.plan(1)
    quick = dataclasses.replace(SETTINGS, admin_call_timeout_s=1.0)
    note_answers = Journal.note_answers

    def note_and_sleep(journal: Journal, entries: Sequence[Any], answers: Sequence[Any]) -> Any:
        refusals = note_answers(journal, entries, answers)
        time.sleep(1.5)
        return refusals

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "note_answers", note_and_sleep)
        first = apply_plan(scene.lake, plan_id, scene.connection, quick)
    assert (first.state, [r.state for r in first.results]) == (RunState.STOPPED, [StepState.INTENDED])
    assert "was not sent: the 1 s for its step are over" in first.detail
    (result,) = first.results
    assert scene.fleet.owner_of(result.bundle) == result.source
    second = apply_plan(scene.lake, plan_id, scene.connection, quick)
    assert (second.state, [r.state for r in second.results]) == (RunState.DONE, [StepState.SETTLED])


def test_step_that_settled_after_its_run_gave_up_is_found_settled(stage: Callable[..., Scene]) -> None:
    scene = stage(hand_over_delay_s=scaled(3.0))
    plan_id = scene.plan(1)
    impatient = dataclasses.replace(SETTINGS, step_deadline_s=1.0)
    first = apply_plan(scene.lake, plan_id, scene.connection, impatient)
    again = apply_plan(scene.lake, plan_id, scene.connection, impatient)
    assert (first.count(StepState.FAILED), again.count(StepState.FAILED)) == (1, 1)
    assert again.state is RunState.STOPPED, "a failure is not forgotten by applying again"
    (result,) = first.results
    assert eventually(lambda: scene.fleet.owner_of(result.bundle) == result.destination)
    third = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    assert (third.state, third.count(StepState.SETTLED)) == (RunState.DONE, 1)


def test_step_that_was_given_up_and_is_still_in_flight_lets_nothing_else_begin(stage: Callable[..., Scene]) -> None:
    scene = stage(hand_over_delay_s=scaled(6.0), in_flight_limit_s=scaled(60.0))
    plan_id = scene.plan(3)
    impatient = dataclasses.replace(SETTINGS, step_deadline_s=1.0)
    for _ in range(2):
        run = apply_plan(scene.lake, plan_id, scene.connection, impatient)
        assert run.state is RunState.STOPPED
        assert [result.state for result in run.results] == [StepState.FAILED], "the canary has not landed"
    last = apply_plan(
        scene.lake, plan_id, scene.connection, dataclasses.replace(SETTINGS, step_deadline_s=scaled(60.0))
    )
    assert (last.state, last.count(StepState.SETTLED)) == (RunState.DONE, 3), last


def test_stopped_run_tells_of_the_steps_that_are_under_way(stage: Callable[..., Scene]) -> None:
    scene = stage(hand_over_delay_s=scaled(30.0))
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    steps = [dataclasses.replace(step, wave=0) for step in make_transfers(scene.lake, manifest, 3)]
    impatient = dataclasses.replace(SETTINGS, step_deadline_s=1.0)
    run = apply_plan(scene.lake, store_plan(scene.lake, manifest, steps), scene.connection, impatient)
    assert [result.state for result in run.results] == [StepState.FAILED, StepState.APPLIED, StepState.APPLIED]


def test_first_isolation_policy_of_a_cluster_stops_the_run(stage: Callable[..., Scene]) -> None:
    scene = stage(brokers=3)
    plan_id = scene.plan(1)
    path = f"{scene.connection.pulsar_root}/admin/clusters/{scene.connection.cluster}/namespaceIsolationPolicies"
    scene.client.create(path, b"{}")
    state, results, detail = scene.apply(plan_id)
    assert (state, results) == (RunState.STOPPED, [])
    assert "namespaceIsolationPolicies has changed since the snapshot" in detail
