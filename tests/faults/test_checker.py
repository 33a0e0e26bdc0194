"""The checker on histories made by hand: good ones pass, and every known-bad one is caught by its invariant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from evenkeel.model.plan import StepKind
from evenkeel.model.service_unit import ServiceUnitState
from faults.checker import INVARIANTS, find_violations
from faults.known_bad import bundles, ends, moments, rules, writing
from faults.made_histories import (
    BROKER,
    BUNDLES,
    HOME,
    MORE_THAN_SLACK_MS,
    RIVAL,
    START_MS,
    WRITER,
    A,
    B,
    C,
    Maker,
    change,
    finish,
    good,
    put,
    record,
    started,
    step,
)
from faults.txn_log import Operation, TxnType

BAD_VERSION = -103
BAD = (*writing.BAD, *bundles.BAD, *moments.BAD, *rules.BAD, *ends.BAD)


def broken(made: Maker) -> set[str]:
    return {violation.invariant for violation in find_violations(made.history())}


@pytest.mark.parametrize("is_admin_call", [False, True])
def test_good_history_has_nothing_against_it(is_admin_call: bool) -> None:
    assert find_violations(good(is_admin_call).history()) == []


def test_run_that_died_and_was_resumed_is_good() -> None:
    made = started(step(0), step(1, wave=1))
    made.begin()
    made.hand_over()
    made.write(WRITER, Operation(TxnType.CLOSE_SESSION))
    made.transactions[-1] = dataclasses.replace(made.transactions[-1], type=TxnType.CLOSE_SESSION, operations=())
    made.acquire(RIVAL)
    made.conclude(0, session=RIVAL, epoch=2)
    made.begin(1, RIVAL, 2)
    made.hand_over(1)
    made.conclude(1, session=RIVAL, epoch=2)
    assert find_violations(made.history()) == []


@pytest.mark.parametrize(("invariant", "make"), BAD, ids=lambda value: getattr(value, "__name__", value))
def test_known_bad_history_is_caught(invariant: str, make: Callable[[], Maker]) -> None:
    assert invariant in broken(make())


def test_every_invariant_has_a_known_bad_history() -> None:
    assert {invariant for invariant, _ in BAD} == set(INVARIANTS)


def test_refused_transaction_counts_as_nothing() -> None:
    made = good()
    made.write(RIVAL, change(made.unit(BUNDLES[1]), b"spoilt"), error=BAD_VERSION)
    assert find_violations(made.history()) == []


def test_destination_that_restarts_in_the_last_moment_is_within_the_documented_window() -> None:
    made = started()
    made.register_again(B)
    made.begin()
    assert broken(finish(made)) == set()


def test_step_to_a_broker_that_is_not_the_plans_any_more_is_skipped_and_all_else_is_done() -> None:
    made = started(step(0, destination=C, destination_incarnation=4), step(1, wave=1))
    made.register_again(C)
    made.conclude(0, "skipped")
    made.begin(1)
    assert broken(finish(made, 1)) == set()


def test_override_by_the_leader_is_pulsars_own_affair_and_all_else_is_done() -> None:
    made = started(step(0), step(1, wave=1), is_done=False)
    made.begin(0)
    made.override(0)
    made.conclude(0, "failed")
    made.begin(1)
    assert broken(finish(made, 1)) == set()


@pytest.mark.parametrize("owner", [A, C])
def test_admin_call_that_pulsar_answers_otherwise_is_told_with_the_owner(owner: str) -> None:
    assert broken(ends.failed_call(f"not settled within 8 s: the bundle is Owned, owned by {owner}", owner)) == set()


def test_next_run_may_go_on_after_the_end_that_the_first_ones_caller_gave() -> None:
    made = started(step(0), step(1, wave=1), until_ms={1: START_MS})
    made.begin(0)
    finish(made, 0)
    made.release()
    made.now_ms += MORE_THAN_SLACK_MS
    made.acquire(RIVAL)
    made.begin(1, RIVAL, 2)
    made.hand_over(1)
    made.conclude(1, session=RIVAL, epoch=2)
    assert broken(made) == set()


CHILDREN = ("t/n/0x00000000_0x20000000", "t/n/0x20000000_0x40000000")


def split(**facts: Any) -> Maker:
    """A split, all the way."""
    made = started(step(0, kind=StepKind.SPLIT, destination=None, split_boundary=0x20000000), **facts)
    parent = made.unit(BUNDLES[0])
    splitting = (
        b'{"state":"Splitting","sourceBroker":"a:8080","splitServiceUnitToDestBroker":'
        b'{"0x00000000_0x20000000":null,"0x20000000_0x40000000":null},"force":false,"timestamp":1,"versionId":2}'
    )
    entry = made.entry(made.steps[0], "applied", 1)
    made.write(
        WRITER,
        Operation(TxnType.CHECK, f"{HOME}/fence"),
        change(parent, splitting),
        put(made.entry_path(made.steps[0]), entry),
    )
    for child in CHILDREN:
        made.write(BROKER, put(made.unit(child), made.owned(A)))
    made.set_boundaries("0x00000000", "0x20000000", "0x40000000", "0x80000000", "0xffffffff")
    made.write(BROKER, change(parent, record(ServiceUnitState.DELETED, 3, None, A)))
    made.write(BROKER, Operation(TxnType.DELETE, parent))
    made.conclude()
    return made


def test_split_with_both_children_is_good() -> None:
    assert find_violations(split().history()) == []


@pytest.mark.parametrize(("is_cut", "invariants"), [(True, set()), (False, {"I9"})])
def test_node_of_a_split_bundle_may_come_back_on_a_modular_cluster(is_cut: bool, invariants: set[str]) -> None:
    made = Maker((step(0, kind=StepKind.SPLIT, destination=None, split_boundary=0x20000000),), is_admin_call=True)
    made.build_cluster()
    made.acquire()
    made.begin()
    for child in CHILDREN:
        made.write(BROKER, put(made.unit(child), made.owned(A)))
    made.write(BROKER, Operation(TxnType.DELETE, made.unit(BUNDLES[0])))
    if is_cut:
        made.set_boundaries("0x00000000", "0x20000000", "0x40000000", "0x80000000", "0xffffffff")
    made.conclude()
    made.write(BROKER, put(made.unit(BUNDLES[0]), made.owned(A)))
    assert broken(made) == invariants


@pytest.mark.parametrize(("disturbed", "invariants"), [(CHILDREN[:1], set()), (CHILDREN[1:], {"I9"})])
def test_child_is_missed_after_a_split_unless_its_broker_died(disturbed: tuple[str], invariants: set[str]) -> None:
    made = split(disturbed=frozenset(disturbed))
    made.write(BROKER, Operation(TxnType.DELETE, made.unit(CHILDREN[0])))
    assert broken(made) == invariants
