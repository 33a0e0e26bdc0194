"""The filters in the order of each load manager, and what happens when nothing passes or one of them fails."""

from __future__ import annotations

import dataclasses

import pytest

from evenkeel.model.errors import InputError
from evenkeel.model.policies import IsolationPolicy, Policies
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.eligibility import Eligibility
from evenkeel.pulsar_rules.placement import (
    BrokerFacts,
    FilteredBrokers,
    can_transfer,
    choose_with,
    filter_extensible,
    version_key,
)
from support.pulsar_reference.placement import ModularRequest, RoundRobin, filter_modular

BROKERS = ["b1:8080", "b2:8080", "b3:8080", "b4:8080"]
FACTS = {name: BrokerFacts(version="4.2.4") for name in BROKERS}
RESERVED = Policies((IsolationPolicy("pool", ("t/isolated",), ("b1", "b2"), ("b3",), 1),))
PLAIN = ModularRequest("t/n")
ISOLATED = ModularRequest("t/isolated")
LATER = PulsarSettings(prefer_later_versions=True)


def facts_with(**changes: BrokerFacts) -> dict[str, BrokerFacts]:
    return {**FACTS, **{f"{name}:8080": facts for name, facts in changes.items()}}


def modular(
    request: ModularRequest, facts: dict[str, BrokerFacts] = FACTS, settings: PulsarSettings | None = None
) -> FilteredBrokers:
    return filter_modular(facts, Eligibility(list(facts), RESERVED), request, settings or PulsarSettings())


def extensible(
    request: ModularRequest, facts: dict[str, BrokerFacts] = FACTS, settings: PulsarSettings | None = None
) -> FilteredBrokers:
    return filter_extensible(facts, Eligibility(list(facts), RESERVED), request, settings or PulsarSettings())


@pytest.mark.parametrize("find", [modular, extensible])
def test_isolation_leaves_primaries_or_the_shared_brokers(find: type) -> None:
    assert find(ISOLATED).brokers == ["b1:8080", "b2:8080"]
    assert find(PLAIN).brokers == ["b3:8080", "b4:8080"]


@pytest.mark.parametrize("find", [modular, extensible])
def test_shared_broker_must_take_the_kind_of_topics(find: type) -> None:
    facts = facts_with(b3=BrokerFacts(takes_persistent=False), b4=BrokerFacts(takes_non_persistent=False))
    assert find(PLAIN, facts).brokers == ["b4:8080"]
    assert find(dataclasses.replace(PLAIN, is_non_persistent=True), facts).brokers == ["b3:8080"]


def test_topic_limit_is_ignored_by_the_modular_manager_when_all_exceed_it() -> None:
    full = {name: BrokerFacts(topics=50_001) for name in BROKERS}
    assert modular(PLAIN, full).brokers == ["b3:8080", "b4:8080"]
    assert extensible(PLAIN, full).brokers == []


def test_broker_at_the_topic_limit_takes_more_only_under_the_modular_manager() -> None:
    at_limit = facts_with(b3=BrokerFacts(topics=50_000))
    assert modular(PLAIN, at_limit).brokers == ["b3:8080", "b4:8080"]
    assert extensible(PLAIN, at_limit).brokers == ["b4:8080"]


def test_anti_affinity_and_isolation_can_leave_nothing_in_the_extensible_order() -> None:
    grouped = dataclasses.replace(PLAIN, group_owned={"b3:8080": 1, "b4:8080": 2})
    assert modular(grouped).brokers == ["b3:8080"]
    assert extensible(grouped).brokers == []


def test_failure_domains_are_looked_at_only_where_enabled() -> None:
    domains = {"b3:8080": "east", "b1:8080": "east"}
    grouped = dataclasses.replace(PLAIN, group_owned={"b1:8080": 1, "b2:8080": 1}, domains=domains)
    everywhere = PulsarSettings(failure_domains_enabled=True)
    assert extensible(grouped).brokers == ["b3:8080", "b4:8080"]
    # b1's bundle counts against b3, which shares its domain; b2's against b4, since both have none.
    assert extensible(dataclasses.replace(grouped, group_owned={"b1:8080": 1}), settings=everywhere).brokers == [
        "b4:8080"
    ]


def test_modular_manager_spreads_a_namespace_evenly() -> None:
    spread = dataclasses.replace(PLAIN, namespace_owned={"b3:8080": 2, "b4:8080": 1})
    assert modular(spread).brokers == ["b4:8080"]
    assert modular(spread, settings=PulsarSettings(distribute_bundles_evenly_enabled=False)).brokers == BROKERS[2:]


def test_modular_manager_starts_over_when_the_filters_leave_nothing() -> None:
    facts = {name: BrokerFacts(load_manager_class="Simple") for name in BROKERS}
    request = dataclasses.replace(PLAIN, load_manager_class="Modular")
    assert modular(request, facts).brokers == ["b3:8080", "b4:8080"]
    assert extensible(request, facts).brokers == []


def test_unreadable_version_makes_the_modular_manager_start_over_and_the_extensible_go_on() -> None:
    facts = facts_with(b3=BrokerFacts(version="new"), b4=BrokerFacts(version="4.0.0"))
    owned = dataclasses.replace(PLAIN, namespace_owned={"b3:8080": 1}, group_owned={"b4:8080": 1})
    assert modular(PLAIN, facts, LATER).brokers == ["b3:8080", "b4:8080"]
    assert modular(PLAIN, facts, LATER).failures
    found = extensible(owned, facts, LATER)
    assert found.brokers == ["b3:8080"]
    assert "'new' is not a version" in found.failures[0]


def test_primaries_are_counted_after_the_filters_before_isolation() -> None:
    # b1 and b2 are full, so none of the primaries is left and the secondary steps in.
    full = BrokerFacts(topics=50_000, version="4.2.4")
    assert extensible(ISOLATED, facts_with(b1=full, b2=full)).brokers == ["b3:8080"]


def test_transfer_needs_a_destination_that_the_filters_left() -> None:
    left, settings = FilteredBrokers(["b1:8080", "b2:8080"]), PulsarSettings()
    assert can_transfer("b1:8080", "b2:8080", left, False, False, settings)
    assert not can_transfer("b1:8080", "b3:8080", left, False, False, settings)
    assert not can_transfer("b1:8080", "b1:8080", left, False, False, settings)
    assert not can_transfer("b1:8080", "b2:8080", FilteredBrokers(left.brokers, ("failed",)), False, False, settings)
    assert not can_transfer("b1:8080", "b2:8080", left, True, False, settings)
    unload = PulsarSettings(transfer_enabled=False)
    assert can_transfer("b1:8080", "b1:8080", left, False, False, unload)
    assert not can_transfer("b1:8080", "b1:8080", FilteredBrokers(["b1:8080"]), False, False, unload)


def test_versions_are_ordered_as_semantic_versions() -> None:
    ordered = ["2.9.10", "2.10.0-rc.2", "2.10.0-rc.10", "2.10.0-rc.10.a", "2.10.0-snapshot", "2.10.0", "10.0.0"]
    keys = [version_key(version) for version in ordered]
    assert keys == sorted(set(keys))
    assert version_key("2.10.0+build.1") == version_key("2.10.0")
    for malformed in (None, "", "2.10", "v2.10.0", "2.10.0.1", "02.1.0"):
        with pytest.raises(InputError, match="is not a version"):
            version_key(malformed)


def test_round_robin_takes_turns_and_follows_the_candidates() -> None:
    turns, robin = [], RoundRobin()
    for candidates in (BROKERS[:3], BROKERS[:3], BROKERS[:3], BROKERS[:3], BROKERS[1:], [], BROKERS[:1]):
        chosen, robin = robin.choose(candidates)
        turns.append(chosen)
    assert turns == ["b1:8080", "b2:8080", "b3:8080", "b1:8080", "b2:8080", None, "b1:8080"]


def test_same_seed_draws_the_same_brokers() -> None:
    first, second = choose_with(7), choose_with(7)
    assert [first(BROKERS) for _ in range(20)] == [second(BROKERS) for _ in range(20)]
