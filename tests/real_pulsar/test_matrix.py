"""The matrix of versions and kinds: what it covers, and what its records say."""

from __future__ import annotations

from pathlib import Path

from evenkeel.local.real_pulsar.jars import DEFAULT_VERSION
from evenkeel.model.pulsar_versions import TESTED
from matrix.__main__ import RECORDS, tell
from matrix.cycles import STORIES, Cycle, StoryRecord, read_records, supported_cycles, write_record
from support.pulsar_traffic import Account, TrafficFigures

SEEN = TrafficFigures(producers=36, sent=720, acknowledged=720, received=720, longest_gap_s=1.25)


def test_every_tested_version_is_covered_with_every_kind_that_it_has() -> None:
    kinds = {version: {str(c.kind) for c in supported_cycles() if c.version == version} for version in TESTED}
    extensible = {"modular", "extensible", "extensible-system-topic"}
    assert kinds == {"3.0.7": extensible - {"extensible"}, "4.0.7": extensible, "4.2.4": extensible}
    assert DEFAULT_VERSION in TESTED


def test_recorded_cycles_are_complete_and_lost_nothing() -> None:
    records = read_records(RECORDS)
    assert set(records) == {str(cycle) for cycle in supported_cycles()}, "run `make matrix` for those that are missing"
    for cycle, record in records.items():
        assert [story["story"] for story in record["stories"]] == list(STORIES), cycle
        for story in record["stories"]:
            seen = story["traffic"]
            assert (story["problem"], seen["acknowledged"], seen["received"]) == ("", seen["sent"], seen["sent"]), cycle


def test_record_of_one_cycle_leaves_the_others_alone(tmp_path: Path) -> None:
    first, second, *_ = supported_cycles()
    path = tmp_path / "compatibility.json"
    write_record(path, second, [StoryRecord("drain", "", 3.0, SEEN)], "2026-01-01")
    write_record(path, first, [StoryRecord("drain", "it broke", 3.0, None)], "2026-01-02")
    records = read_records(path)
    assert set(records) == {str(first), str(second)}
    assert records[str(second)]["stories"][0]["traffic"]["sent"] == 720


def test_failure_is_told_with_its_reason() -> None:
    assert tell(StoryRecord("drain", "2 producers stay silent", 3.0, SEEN)).endswith("2 producers stay silent")
    assert " ok " in tell(StoryRecord("drain", "", 3.0, SEEN))
    assert str(Cycle("4.0.7", supported_cycles()[0].kind)) == "4.0.7:modular"


def test_gap_of_a_producer_that_fell_silent_reaches_to_the_last_send() -> None:
    account = Account(begun=4, last_sent_at_s=30.0)
    account.acknowledged["a"] = {0, 1}
    account.acknowledged_at_s["a"] = [1.0, 2.0]
    assert account.figures() == TrafficFigures(producers=1, sent=4, acknowledged=2, received=0, longest_gap_s=28.0)


def test_producer_without_an_acknowledgement_since_the_move_is_silent() -> None:
    account = Account()
    account.acknowledged_at_s |= {"before": [1.0, 9.0], "after": [1.0, 10.5]}
    assert account.silent_since(10.0, ["before", "after", "never"]) == ["before", "never"]
