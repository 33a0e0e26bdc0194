"""Documents that somebody broke, by accident or on purpose: each is refused in one sentence, without a traceback."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from evenkeel.model.approval import Approval
from evenkeel.model.directives import UNKNOWN, Directive
from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import parse_json, show
from evenkeel.model.plan import Plan
from evenkeel.model.policies import IsolationPolicy, Policies
from evenkeel.model.request import PlanRequest
from evenkeel.model.run import (
    JournalEntry,
    NativeSwitches,
    PlanStatus,
    RunRecord,
    RunState,
    StepResult,
    StepState,
)
from evenkeel.model.run_events import Decision, RunEvent
from evenkeel.model.snapshot import PolicyDocument, SnapshotManifest
from evenkeel.model.verdict import Verdict

DEEP = b"[" * 200_000
NODE = "/evenkeel/lab/plans/p1"
NOW_MS = 1_700_000_000_000
ENTRY = JournalEntry("p1", 0, "t/n/0x0_0x1", "b1:8080", None, 3, StepState.SETTLED, NOW_MS)
SWITCHES = NativeSwitches({"shedding": None, "splitting": "true"}, {"shedding": "false"}, made_node=False)
STANDING = PlanStatus("p1", "me", 3, RunState.RUNNING, NOW_MS, {"settled": 1}, "", SWITCHES, ((7, 1), (7, 2)))
RESULT = StepResult(0, "t/n/0x0_0x1", "b1:8080", "b2:8080", StepState.SETTLED, "", 0.5)
RUN = RunRecord("r", "p1", "lab", 3, RunState.DONE, "then", "now", False, (RESULT,), "", "1.0")
EVENT = RunEvent("now", 3, Decision.WARNED, "careful", seconds=1, facts={"any": [1, {"thing": None}]})
Change = dict[str, Any]


def changed(data: bytes, change: Change) -> bytes:
    return json.dumps(json.loads(data) | change).encode()


def test_what_evenkeel_wrote_itself_is_read_back() -> None:
    assert JournalEntry.decode(ENTRY.encode(), NODE) == ENTRY
    assert PlanStatus.decode(STANDING.encode(), NODE) == STANDING
    unpaused = replace(STANDING, switches=None, own_changes=())
    assert PlanStatus.decode(unpaused.encode(), NODE) == unpaused
    assert RunRecord.from_json(json.loads(json.dumps(RUN.to_json())), "run.json") == RUN
    assert RunEvent.decode(EVENT.encode(), "events.jsonl") == EVENT


@pytest.mark.parametrize(
    "change",
    [
        {"at_ms": "yesterday"},
        {"at_ms": float("inf")},
        {"at_ms": 10**18},
        {"at_ms": -1},
        {"order": True},
        {"order": 1.0},
        {"epoch": 10**400},
        {"epoch": None},
        {"bundle": ["t/n"]},
        {"source": None},
        {"destination": 5},
        {"detail": {"why": "so"}},
        {"detail": "\ud800"},
        {"state": ["settled"]},
        {"state": "melted"},
        {"unknown": 1},
    ],
)
def test_journal_entry_with_a_field_of_the_wrong_type_is_refused_with_its_node(change: Change) -> None:
    with pytest.raises(InputError, match=f"{NODE} is not a journal entry"):
        JournalEntry.decode(changed(ENTRY.encode(), change), NODE)


@pytest.mark.parametrize(
    "change",
    [
        {"at_ms": "1700000000000"},
        {"counts": [1]},
        {"counts": {"settled": "1"}},
        {"holder": None},
        {"switches": []},
        {"switches": {"found": {}, "put": ["shedding"], "made_node": False}},
        {"switches": {"found": {}, "put": {"shedding": 1}, "made_node": False}},
        {"switches": {"found": {}, "put": {"shedding": "false"}, "made_node": False}},
        {"switches": {"found": "shedding", "put": {}, "made_node": False}},
        {"switches": {"found": {}, "put": {}, "made_node": 0}},
        {"switches": {"found": {}, "put": {}}},
        {"own_changes": {"7": 1}},
        {"own_changes": [[7]]},
        {"own_changes": [[7, "1"]]},
        {"own_changes": [7, 1]},
        {"own_changes": None},
    ],
)
def test_standing_with_a_field_of_the_wrong_type_is_refused_with_its_node(change: Change) -> None:
    with pytest.raises(InputError, match=f"{NODE} is not a plan's status"):
        PlanStatus.decode(changed(STANDING.encode(), change), NODE)


@pytest.mark.parametrize("change", [{"epoch": "3"}, {"facts": []}, {"seconds": float("nan")}, {"order": "first"}])
def test_event_with_a_field_of_the_wrong_type_is_refused(change: Change) -> None:
    with pytest.raises(InputError, match=r"events\.jsonl is not an event of a run"):
        RunEvent.decode(changed(EVENT.encode(), change), "events.jsonl")


@pytest.mark.parametrize(
    "change",
    [{"epoch": "3"}, {"results": {}}, {"results": [5]}, {"results": [RUN.to_json()["results"][0] | {"order": "0"}]}],
)
def test_run_with_a_field_of_the_wrong_type_is_refused(change: Change) -> None:
    with pytest.raises(InputError, match=r"run\.json is not a run"):
        RunRecord.from_json(json.loads(json.dumps(RUN.to_json())) | change, "run.json")


def test_approval_with_a_field_of_the_wrong_type_is_refused() -> None:
    fields = Approval("p1", "east", "", "ann", "OS user ann", "host", "now", "cli").to_json()
    with pytest.raises(InputError, match=r"approval\.json is not an approval .*approved_by = \['ann'\]"):
        Approval.from_json(fields | {"approved_by": ["ann"]}, "approval.json")


@pytest.mark.parametrize("artifact", [Approval, Plan, PlanRequest, RunRecord, SnapshotManifest, Verdict])
@pytest.mark.parametrize("value", [[], None, 5, "text"])
def test_artifact_that_is_no_object_is_refused(artifact: Any, value: object) -> None:
    with pytest.raises(InputError, match=r"artifact\.json is not a JSON object"):
        artifact.from_json(value, "artifact.json")


@pytest.mark.parametrize("data", [pytest.param(DEEP, id="deep"), b"[]", b"5", b"", b"\xff"])
@pytest.mark.parametrize("document", [JournalEntry, PlanStatus, RunEvent])
def test_bytes_that_are_no_document_are_refused(document: Any, data: bytes) -> None:
    with pytest.raises(InputError, match=f"{NODE} "):
        document.decode(data, NODE)


def test_parser_gives_up_on_nesting_without_end() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(DEEP)


def test_value_is_shown_in_short_however_long_or_deep_it_is() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, "x" * 100_000, list(range(100_000)), 10**3_000):
        assert len(show(value)) <= 110


@pytest.mark.parametrize(
    ("data", "order"),
    [
        pytest.param(DEEP, Directive(UNKNOWN, "", DEEP.decode()), id="deep"),
        (b'{"who": 5, "when": ["now"], "reason": {}}', Directive("5", "['now']")),
        (b'{"who": "\\ud800", "when": null}', Directive("?", "")),
    ],
)
def test_order_counts_whatever_it_says(data: bytes, order: Directive) -> None:
    assert Directive.decode(data) == order
    assert order.encode()


def test_policy_with_hostile_figures_or_nesting_is_refused() -> None:
    failover = {"parameters": {"min_limit": float("inf")}}
    with pytest.raises(InputError, match="isolation policy 'p' is malformed"):
        IsolationPolicy.from_json("p", {"namespaces": [], "primary": [], "auto_failover_policy": failover})
    row = PolicyDocument("isolation", "", DEEP.decode(), "/admin/clusters/lab")
    with pytest.raises(InputError, match="isolation /admin/clusters/lab is not JSON"):
        Policies.from_documents([row])
