"""Runs cases of the hash ring and of the state machine: split algorithms, states and the conflict resolver."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evenkeel.model.bundles import RING_END, BundleRange
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.pulsar_rules.ring import (
    hash_topic,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
)
from evenkeel.pulsar_rules.state_machine import StateStore, find_conflict, is_valid_transition
from support.case_reading import Case, Comparison, read_stats
from support.pulsar_reference.splits import TopicTraffic, flow_or_qps_equally_divide

MIB = 1 << 20


def run_range(case: Case) -> Comparison:
    return _compare_boundaries(case, range_equally_divide(_read_range(case.input)))


def run_topic_count(case: Case) -> Comparison:
    return _compare_boundaries(case, topic_count_equally_divide(_hashes(case.input, case.input.get("topics") or ())))


def run_positions(case: Case) -> Comparison:
    positions = case.input.get("positions")
    if not positions:
        comparison = Comparison()
        comparison.equal("error", case.expected.get("error"), "IllegalArgumentException")
        return comparison
    topics = None if case.input.get("force") else len(case.input.get("topics") or ())
    return _compare_boundaries(case, specified_positions_divide(_read_range(case.input), positions, topics))


def run_flow(case: Case) -> Comparison:
    topics = _read_topics(case.input)
    limits = case.settings.split_thresholds
    margin = case.settings.flow_or_qps_difference_threshold_percentage / 100
    found = flow_or_qps_equally_divide(topics, limits.msg_rate, limits.bandwidth_mbytes * MIB, margin)
    comparison = _compare_boundaries(case, found) if "boundaries" in case.expected else Comparison()
    if "first_boundary" in case.expected:
        comparison.equal("first_boundary", case.expected["first_boundary"], found[0] if found else None)
    for key, value in {"msg_rate": "msg_rate", "throughput": "throughput"}.items():
        limit = case.expected.get(f"each_segment_{key}_below")
        if limit is not None:
            segments = [0.0] * (len(found) + 1)
            for topic in topics:
                segments[bisect_right(found, topic.hash)] += getattr(topic, value)
            comparison.equal(f"segments within {limit} {key}", [], [part for part in segments if part > limit])
    return comparison


def _read_range(given: Mapping[str, Any]) -> BundleRange:
    return BundleRange(int(given.get("lower", 0)), int(given.get("upper", RING_END)))


def _hashes(given: Mapping[str, Any], topics: Any) -> list[int]:
    known = given.get("crc32") or {}
    return [known[topic] if topic in known else hash_topic(topic) for topic in topics]


def _read_topics(given: Mapping[str, Any]) -> list[TopicTraffic]:
    named = dict(given.get("topics") or {})
    generator = given.get("generator")
    for group in generator["groups"] if generator else ():
        named.update(dict.fromkeys(_expand(generator.get("prefix", "") + group["names"]), group))
    traffic = [read_stats(fields) for fields in named.values()]
    hashes = _hashes(given, named)
    return [TopicTraffic(place, each.msg_rate, each.throughput) for place, each in zip(hashes, traffic, strict=True)]


def _expand(pattern: str) -> Iterator[str]:
    """All names of a pattern such as test{1..5}-partition-{0..19}."""
    found = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if found is None:
        yield pattern
        return
    for number in range(int(found[1]), int(found[2]) + 1):
        yield from _expand(pattern[: found.start()] + str(number) + pattern[found.end() :])


def _compare_boundaries(case: Case, found: list[int]) -> Comparison:
    """Pulsar says null where there is no position; ours is an empty list."""
    comparison = Comparison()
    comparison.equal("boundaries", case.expected["boundaries"] or [], found)
    return comparison


@dataclass(frozen=True)
class Record:
    """A record as Pulsar's own tests build them: theirs may say Init, which no stored record can."""

    state: ServiceUnitState
    version_id: int
    destination: str | None
    source: str | None
    force: bool


def read_record(fields: Mapping[str, Any] | None) -> Record | None:
    if fields is None:
        return None
    return Record(
        ServiceUnitState(fields["state"]),
        int(fields["versionId"]),
        fields.get("dstBroker"),
        fields.get("sourceBroker"),
        bool(fields.get("force")),
    )


def run_resolver(case: Case) -> Comparison:
    comparison = Comparison()
    for number, row in enumerate(case.rows, start=1):
        store = StateStore(row.get("storage", StateStore.METADATA_STORE))
        conflict = find_conflict(read_record(row.get("from")), read_record(row.get("to")), store)
        comparison.equal(f"row {number}: keep_left", row["keep_left"], conflict is not None)
    return comparison


def run_transitions(case: Case) -> Comparison:
    comparison = Comparison()
    store = StateStore(case.input["storage"])
    states = [ServiceUnitState(state) for state in case.input["states"]]
    for before in states:
        found = [str(after) for after in states if is_valid_transition(before, after, store)]
        comparison.equal(str(before), sorted(case.expected["allowed"].get(before, ())), sorted(found))
    return comparison


def is_active(state: ServiceUnitState) -> bool:
    """Whether some broker serves the bundle or is about to."""
    return state is ServiceUnitState.OWNED or state.is_in_flight


def run_active(case: Case) -> Comparison:
    return _compare_states(case, [state for state in case.input["states"] if is_active(ServiceUnitState(state))])


def run_in_flight(case: Case) -> Comparison:
    return _compare_states(case, [state for state in case.input["states"] if ServiceUnitState(state).is_in_flight])


def _compare_states(case: Case, found: list[str]) -> Comparison:
    comparison = Comparison()
    comparison.equal("true_for", sorted(case.expected["true_for"]), sorted(found))
    return comparison


ADAPTERS = {
    "range_equally_divide": run_range,
    "topic_count_equally_divide": run_topic_count,
    "specified_positions_divide": run_positions,
    "flow_or_qps_equally_divide": run_flow,
    "ServiceUnitStateDataConflictResolver": run_resolver,
    "ServiceUnitState.isValidTransition": run_transitions,
    "ServiceUnitState.isActiveState": run_active,
    "ServiceUnitState.isInFlightState": run_in_flight,
}
