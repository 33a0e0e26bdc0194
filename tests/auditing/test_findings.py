"""Findings: each trap is told with its severity, and what is well is not told."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

from evenkeel.adapters.lake.store import Lake
from evenkeel.auditing import findings as judge
from evenkeel.auditing.hand_overs import learn_hand_overs
from evenkeel.model.audit import AuditFinding, BundleMove, Oscillation
from evenkeel.model.directives import Directive
from evenkeel.model.policies import IsolationPolicy, Policies
from evenkeel.model.run import RunRecord, RunState, StepResult, StepState
from evenkeel.model.snapshot import SnapshotManifest
from evenkeel.model.timestamps import format_time
from support.lakes import CLUSTER, TAKEN_AT, make_bundle, write_snapshot
from support.plans import make_step

BROKERS = ("b1:8080", "b2:8080")
BUNDLE = "acme/orders/0x00000000_0xffffffff"


def told(findings: Any) -> list[tuple[str, str, str]]:
    return [(each.severity, each.kind, each.subject) for each in findings]


def make_manifest(folder: Path, **fields: Any) -> SnapshotManifest:
    return dataclasses.replace(write_snapshot(Lake(str(folder)), [make_bundle(BUNDLE)]), **fields)


def test_namespace_that_no_broker_may_own_is_critical(tmp_path: Path) -> None:
    everything = IsolationPolicy("all", ("acme/secret",), ("b.*",), (), 1)
    state = judge.PolicyState(
        make_manifest(tmp_path), Policies((everything,)), BROKERS, [("acme/orders", None), ("acme/secret", "b1:8080")]
    )
    assert told(judge.judge_policies([state])) == [("critical", "policy", "no-shared-broker")]


def test_violation_is_told_while_it_lasts_and_when_it_is_closed(tmp_path: Path) -> None:
    policies = Policies((IsolationPolicy("own", ("acme/secret",), ("b1",), (), 1),))
    wrong, right = ([("acme/secret", owner)] for owner in ("b2:8080", "b1:8080"))
    first = judge.PolicyState(make_manifest(tmp_path), policies, BROKERS, wrong)
    still = dataclasses.replace(first, manifest=dataclasses.replace(first.manifest, taken_at=TAKEN_AT + timedelta(1)))
    mended = dataclasses.replace(still, owned=right)
    assert told(judge.judge_policies([first, still])) == [("warning", "policy", "acme/secret")]
    assert told(judge.judge_policies([first, mended])) == [("info", "policy", "acme/secret")]


def test_anti_affinity_group_whose_empty_broker_is_reserved_is_told(tmp_path: Path) -> None:
    policies = Policies((IsolationPolicy("own", ("acme/secret",), ("b1",), (), 1),), anti_affinity={"acme/orders": "g"})
    state = judge.PolicyState(make_manifest(tmp_path), policies, BROKERS, [("acme/orders", "b2:8080")])
    assert told(judge.judge_policies([state])) == [("warning", "policy", "g")]


def test_drift_names_the_movers() -> None:
    results = [StepResult(place, f"acme/n/{place}", "b1:8080", "b2:8080", StepState.SETTLED, "") for place in range(4)]
    ended = format_time(TAKEN_AT)
    run = RunRecord("r1", "p1", CLUSTER, 1, RunState.DONE, ended, ended, False, tuple(results), "", "1")
    owners = {result.bundle: "b1:8080" if result.order else "b2:8080" for result in results}
    later = TAKEN_AT + timedelta(hours=1)
    moves = [
        BundleMove(
            f"acme/n/{place}", "b2:8080", "b1:8080", TAKEN_AT, later, 1, False, "pulsar balancer", None, "likely"
        )
        for place in (1, 2)
    ]
    found = list(judge.judge_drift(run, owners, moves))
    assert found[0].severity == "critical"
    assert found[0].sentence.endswith("moved 2 by pulsar balancer, 1 by nobody known")
    assert [each.subject for each in found[1:]] == ["acme/n/1", "acme/n/2", "acme/n/3"]
    assert list(judge.judge_drift(run, dict.fromkeys(owners, "b2:8080"), moves)) == []


def test_oscillation_is_told_from_its_rate_on() -> None:
    assert told(judge.judge_oscillation("c", Oscillation(40, 3, 30, 1, 100, 90), [])) == []
    assert told(judge.judge_oscillation("c", Oscillation(20, 5, 10, 2, 100, 50), [])) == [
        ("warning", "oscillation", "c")
    ]
    assert told(judge.judge_oscillation("c", Oscillation(8, 5, 4, 2, 100, 10), [])) == [
        ("critical", "oscillation", "c")
    ]


def test_mark_is_told_and_warned_of_after_a_day() -> None:
    marks = {"b1:8080": Directive("ada", format_time(TAKEN_AT), "disk"), "b2:8080": None}
    found = list(judge.judge_marks(marks, {}, TAKEN_AT + timedelta(days=2)))
    assert told(found) == [("warning", "marks", "b1:8080"), ("info", "marks", "b2:8080")]
    assert "for 2.0 days by ada" in found[0].sentence


def test_old_snapshots_and_silent_brokers_are_told(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path, brokers_with_stale_report=("b9:8080",))
    found: list[AuditFinding] = list(judge.judge_collection("c", [manifest], TAKEN_AT + timedelta(hours=2)))
    assert told(found) == [("warning", "collection", "c"), ("warning", "reports", "b9:8080")]
    assert told(judge.judge_collection("c", [], TAKEN_AT)) == [("critical", "collection", "c")]


def test_switches_of_a_dead_writer_are_critical_and_others_are_told() -> None:
    assert told(judge.judge_switches("c", ["off since noon"], ["a"])) == [("critical", "switches", "c")]
    assert told(judge.judge_switches("c", [], ["a"])) == [("info", "switches", "c")]
    assert told(judge.judge_switches("c", [], [])) == []


def test_hand_over_times_follow_the_median_of_settled_steps() -> None:
    steps = [make_step(order, make_bundle(BUNDLE), "b2:8080", {"b1:8080": 1, "b2:8080": 1}) for order in range(90)]
    seconds = [0.2] * 80 + [90.0] * 10
    results = tuple(
        StepResult(order, BUNDLE, "b1:8080", "b2:8080", StepState.SETTLED, "", taken)
        for order, taken in enumerate(seconds)
    )
    ended = format_time(TAKEN_AT)
    run = RunRecord("r1", "p1", CLUSTER, 1, RunState.DONE, ended, ended, False, results, "", "1")
    present = {"transfer": 500, "unload": 2000}
    (row,) = learn_hand_overs([(run, "extensible", steps)], present, TAKEN_AT)
    assert (row.kind, row.hand_over_ms, row.samples) == ("transfer", 230, 90)
    (row,) = learn_hand_overs([(run, "modular", steps)], present, TAKEN_AT)
    assert (row.kind, row.hand_over_ms) == ("unload", 380)
