"""What a run leaves behind: the plan's status, the audit record, counts, and no journal for ever."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

import pytest

from evenkeel.adapters.fencing.directives import KillSwitch
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.directives import Directive
from evenkeel.model.errors import InputError
from evenkeel.model.run import PlanStatus, RunState, StepResult, StepState
from evenkeel.model.run_events import Decision, RunEvent, decode_events, encode_events, rebuild_run
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from support.approvals import apply_plan
from support.scenes import SETTINGS, Scene

OLD = "0" * 64


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_run_can_be_rebuilt_from_its_events(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    plan_id = scene.plan(4)
    run = scene.run(plan_id)
    events = RunStore(scene.lake).read_events(run.run_id)
    assert rebuild_run(events) == run == RunStore(scene.lake).load(run.run_id)
    assert decode_events(encode_events(events), "here") == events
    assert {event.epoch for event in events[1:]} == {run.epoch}
    assert [event.at for event in events] == sorted(event.at for event in events)


def test_events_hold_the_records_before_and_after(stage: Callable[..., Scene]) -> None:
    scene = stage()
    run = scene.run(scene.plan(1))
    events = RunStore(scene.lake).read_events(run.run_id)
    (applied,) = [event for event in events if event.decision is Decision.APPLIED]
    (settled,) = [event for event in events if event.decision is Decision.SETTLED]
    states = [
        ServiceUnitRecord.decode(str(text).encode(), "event").state
        for text in (applied.before, applied.after, settled.after)
    ]
    assert states == [ServiceUnitState.OWNED, ServiceUnitState.RELEASING, ServiceUnitState.OWNED]


def test_run_whose_events_break_off_counts_as_lost(stage: Callable[..., Scene]) -> None:
    scene = stage()
    run = scene.run(scene.plan(3))
    events = RunStore(scene.lake).read_events(run.run_id)
    assert rebuild_run(events[:-1]).state is RunState.LOST
    with pytest.raises(InputError, match="has no start of a run"):
        rebuild_run(events[1:])


def test_event_of_another_version_is_refused() -> None:
    event = RunEvent("2026-01-01T00:00:00Z", 1, Decision.WARNED, schema_version=99)
    with pytest.raises(InputError, match="schema version 99"):
        decode_events(encode_events([event]), "events.jsonl")


def test_every_decision_is_a_log_line_and_a_count(
    stage: Callable[..., Scene], caplog: pytest.LogCaptureFixture
) -> None:
    scene = stage()
    with caplog.at_level(logging.INFO, "evenkeel.decisions"):
        run = scene.run(scene.plan(3))
    lines = [record.getMessage() for record in caplog.records if record.name == "evenkeel.decisions"]
    assert sum("decision='settled'" in line for line in lines) == 3
    assert all(f"plan={run.plan_id[:12]}" in line for line in lines)
    path = f"runs/{run.run_id}/metrics.prom"
    metrics = scene.lake.read(path).decode()
    assert f'evenkeel_decisions_total{{cluster="{run.cluster}",decision="settled",kind="transfer"}} 3' in metrics


def test_status_tells_who_how_far_and_how_it_ended(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(3)
    during: list[PlanStatus] = []
    run = apply_plan(
        scene.lake, plan_id, scene.connection, SETTINGS, on_progress=lambda _: during.append(scene.status(plan_id))
    )
    assert {(s.state, s.epoch) for s in during} == {(RunState.RUNNING, run.epoch)}
    assert all(s.switches is not None for s in during)
    after = scene.status(plan_id)
    assert (after.state, after.switches, after.counts) == (RunState.DONE, None, {"planned": 3, "settled": 3})
    assert after.holder == during[0].holder != ""


def test_journal_of_a_plan_that_ended_long_ago_is_removed_and_younger_ones_stay(stage: Callable[..., Scene]) -> None:
    scene = stage()
    first = scene.plan(1)
    scene.run(first)
    home = scene.connection.home
    old = dataclasses.replace(scene.status(first), plan_id=OLD, at_ms=scene.status(first).at_ms - 31 * 86_400_000)
    scene.client.create(f"{home}/plans/{OLD}", old.encode())
    for number in range(250):
        scene.client.create(f"{home}/plans/{OLD}/steps/{number:06d}", b"{}", makepath=True)
    running = dataclasses.replace(old, plan_id="1" * 64, state=RunState.RUNNING)
    scene.client.create(f"{home}/plans/{running.plan_id}", running.encode())
    second = scene.plan(3)
    assert scene.run(second).state is RunState.DONE
    kept = set(scene.client.get_children(f"{home}/plans"))
    assert OLD not in kept
    assert {first, second} <= kept


def test_kill_switch_in_mid_wave_stops_the_run_by_name(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(6)
    written: list[int] = []

    def pull(result: StepResult) -> None:
        if result.order == 1:
            with ZooKeeperSession(scene.connection.zookeeper, 5.0, 5.0) as session:
                KillSwitch(session, scene.connection).pull(Directive("ada", "2026-01-01T00:00:00Z", "pager went off"))
            written.append(scene.client.exists(f"{scene.connection.home}/fence").version)

    one_by_one = dataclasses.replace(SETTINGS, in_flight_steps=1)
    run = apply_plan(scene.lake, plan_id, scene.connection, one_by_one, on_progress=pull)
    assert run.state is RunState.STOPPED
    assert "stopped by ada: pager went off" in run.detail
    assert len(written) == 1
    begun = [r for r in run.results if r.state in (StepState.SETTLED, StepState.APPLIED)]
    assert len(begun) == 2
    assert len(scene.journal(plan_id)) == 2
    assert scene.switches() == {"loadBalancerSheddingEnabled": "true"}, "the switch forbids steps, not clearing up"
    assert (scene.status(plan_id).state, scene.status(plan_id).switches) == (RunState.STOPPED, None)
    assert scene.client.exists(f"{scene.connection.home}/writer") is None
