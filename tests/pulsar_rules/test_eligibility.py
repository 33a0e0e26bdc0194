"""Pulsar's isolation policies, case by case."""

from __future__ import annotations

import pytest

from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.pulsar_rules.eligibility import Eligibility
from support.clusters import isolation

BROKERS = ["b1.example.com:8080", "b2.example.com:8080", "c1.example.com:8080"]
B1, B2, C1 = BROKERS


def eligible(namespace: str, *policies: object) -> frozenset[str]:
    return Eligibility(BROKERS, Policies(isolation=tuple(policies))).brokers_for(namespace)  # type: ignore[arg-type]


def test_without_policies_every_broker_is_shared() -> None:
    assert eligible("t/ns") == frozenset(BROKERS)


def test_first_policy_in_map_order_wins_even_over_an_exact_later_one() -> None:
    first = isolation("wide", ["t/.*"], [r"b1\..*"])
    second = isolation("exact", ["t/ns"], [r"b2\..*"])
    policies = Policies(isolation=(first, second))
    assert Eligibility(BROKERS, policies).policy_of("t/ns") == "wide"
    assert eligible("t/ns", first, second) == {B1}
    assert eligible("t/ns", second, first) == {B2}


def test_patterns_match_whole_namespace_and_whole_host() -> None:
    policy = isolation("p", ["t/ns"], ["b1"])
    assert eligible("t/ns2", policy) == frozenset(BROKERS)
    assert eligible("t/ns", policy) == frozenset()


def test_secondaries_serve_only_while_too_few_primaries_live() -> None:
    enough = isolation("p", ["t/ns"], [r"b\d\..*"], [r"c\d\..*"], min_limit=2)
    too_few = isolation("p", ["t/ns"], [r"b\d\..*"], [r"c\d\..*"], min_limit=3)
    assert eligible("t/ns", enough) == {B1, B2}
    assert eligible("t/ns", too_few) == {B1, B2, C1}


def test_primaries_of_any_policy_are_not_shared_but_secondaries_are() -> None:
    policy = isolation("p", ["t/ns"], [r"b1\..*"], [r"c1\..*"])
    assert eligible("other/ns", policy) == {B2, C1}


def test_policy_of_a_namespace_without_policy_is_none() -> None:
    assert Eligibility(BROKERS, Policies()).policy_of("t/ns") is None


def test_a_pattern_that_cannot_be_read_is_refused_with_the_policy_name() -> None:
    policies = Policies(isolation=(isolation("broken", ["t/["], ["b1"]),))
    with pytest.raises(InputError, match="'broken'"):
        Eligibility(BROKERS, policies)


@pytest.mark.parametrize("pattern", ["b[1-9&&[^3]].*", "b[1-9&&2].*", "b[1[23]].*", r"b[\w\]&&[^3]].*"])
def test_character_class_that_java_reads_otherwise_is_refused(pattern: str) -> None:
    with pytest.raises(InputError, match="'nested'.*character class inside another"):
        Eligibility(BROKERS, Policies(isolation=(isolation("nested", ["t/ns"], [pattern]),)))


@pytest.mark.parametrize("pattern", ["b[12][.].*", r"b[\[12].*", r"b\[?[12]\..*", "b[12&].*", "b1.*|b2&&.*|b2.*"])
def test_plain_character_classes_and_escaped_brackets_are_read(pattern: str) -> None:
    eligibility = Eligibility(BROKERS, Policies(isolation=(isolation("plain", ["t/ns"], [pattern]),)))
    assert eligibility.brokers_for("t/ns") == {B1, B2}
