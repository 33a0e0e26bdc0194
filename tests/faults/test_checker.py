"""The checker on histories made by hand: the good one passes, and every known-bad one is caught by its invariant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from evenkeel.model.plan import StepKind
from evenkeel.model.service_unit import ServiceUnitState
from faults.checker import INVARIANTS, find_violations
from faults.made_histories import (
    BROKER,
    BUNDLES,
    HOME,
    OPERATOR,
    RIVAL,
    ROOT,
    START_MS,
    STRANGER,
    WRITER,
    A,
    B,
    C,
    Maker,
    change,
    put,
    record,
    step,
)
from faults.txn_log import Operation, TxnType

BAD_VERSION = -103
TWO_WAVES = (step(0), step(1, wave=1))
THREE_AT_ONCE = (step(0), step(1), step(2))


def good(is_admin_call: bool = False) -> Maker:
    """One step, all the way."""
    made = Maker(is_admin_call=is_admin_call)
    made.build_cluster()
    made.acquire()
    made.begin()
    made.hand_over()
    made.conclude()
    made.release()
    return made


def started(*steps: object, **facts: object) -> Maker:
    """A run that has just taken the fence."""
    made = Maker(steps=steps or (step(0),), facts=facts)  # type: ignore[arg-type]
    made.build_cluster()
    made.acquire()
    return made


def finish(made: Maker, number: int = 0) -> Maker:
    made.hand_over(number)
    made.conclude(number)
    return made


def broken(made: Maker) -> set[str]:
    return {violation.invariant for violation in find_violations(made.history())}


@pytest.mark.parametrize("is_admin_call", [False, True])
def test_good_history_has_nothing_against_it(is_admin_call: bool) -> None:
    assert find_violations(good(is_admin_call).history()) == []


def test_run_that_died_and_was_resumed_is_good() -> None:
    made = started(*TWO_WAVES)
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


def released_twice() -> Maker:
    made = finish(good(), 0)
    bundle = made.unit(BUNDLES[0])
    made.transactions = made.transactions[:-2]
    made.write(WRITER, change(bundle, record(ServiceUnitState.RELEASING, 5, A, B)))
    return made


def two_intents_for_a_bundle() -> Maker:
    twin = step(1, bundle=BUNDLES[0])
    made = Maker(steps=(step(0), twin), is_admin_call=True)
    made.build_cluster()
    made.acquire()
    made.begin(0)
    made.begin(1)
    return made


def overtaken_writer_writes() -> Maker:
    made = started()
    made.acquire(RIVAL)
    made.begin(session=WRITER, epoch=1)
    return finish(made)


def stranger_writes_the_journal() -> Maker:
    made = started()
    made.begin()
    made.hand_over()
    made.conclude(session=STRANGER)
    return made


def fence_is_not_checked() -> Maker:
    made = started()
    made.begin(without=("fence",))
    return finish(made)


def admin_intent_with_an_old_epoch() -> Maker:
    made = Maker(is_admin_call=True)
    made.build_cluster()
    made.acquire()
    made.acquire(RIVAL)
    made.begin(session=WRITER)
    return finish(made)


def version_is_skipped() -> Maker:
    made = started()
    made.begin(version_id=3)
    made.write(BROKER, change(made.unit(BUNDLES[0]), record(ServiceUnitState.ASSIGNING, 4, B, A)))
    made.write(BROKER, change(made.unit(BUNDLES[0]), record(ServiceUnitState.OWNED, 5, B, A)))
    made.conclude()
    return made


def writer_forces() -> Maker:
    made = started()
    made.begin(force=True)
    return finish(made)


def record_that_cannot_be_read() -> Maker:
    made = good()
    made.write(BROKER, change(made.unit(BUNDLES[1]), b"{}"))
    return made


def goes_on_while_a_flight_is_overdue() -> Maker:
    made = started(step(0), step(1))
    made.begin(0)
    made.now_ms += 5_000
    made.begin(1)
    finish(made, 0)
    return finish(made, 1)


def never_lands() -> Maker:
    made = started()
    made.begin()
    made.conclude(state="failed")
    return made


def boundaries_with_a_gap() -> Maker:
    made = good()
    made.set_boundaries("0x00000000", "0x40000000", "0x80000000")
    return made


def overlapping_bundles() -> Maker:
    made = good()
    made.write(BROKER, put(made.unit("t/n/0x00000000_0x20000000"), made.owned(A)))
    return made


def destination_is_not_registered() -> Maker:
    made = started()
    made.write(BROKER, Operation(TxnType.DELETE, f"{ROOT}/loadbalance/brokers/{B}"))
    made.begin()
    return finish(made)


def destination_has_restarted_long_ago() -> Maker:
    made = started()
    made.write(BROKER, Operation(TxnType.DELETE, f"{ROOT}/loadbalance/brokers/{B}"))
    made.write(BROKER, put(f"{ROOT}/loadbalance/brokers/{B}", b"{}", is_ephemeral=True))
    made.now_ms += 10_000
    made.begin()
    return finish(made)


def destination_is_drained() -> Maker:
    made = started()
    made.write(OPERATOR, put(f"{HOME}/draining/{B}", b"{}"))
    made.now_ms += 10_000
    made.begin()
    return finish(made)


def wave_begins_after_a_policy_changed() -> Maker:
    made = started()
    made.write(OPERATOR, put(f"{ROOT}/admin/clusters/fleet/namespaceIsolationPolicies", b"{}"))
    made.now_ms += 10_000
    made.begin()
    return finish(made)


def destination_is_reserved_for_others() -> Maker:
    made = Maker(facts={"policy_paths": frozenset()})
    made.build_cluster()
    policy = b"""{"p": {"namespaces": ["other/.*"], "primary": ["b"], "secondary": [],
                  "auto_failover_policy": {"parameters": {"min_limit": "1"}}}}"""
    made.write(OPERATOR, put(f"{ROOT}/admin/clusters/fleet/namespaceIsolationPolicies", policy))
    made.now_ms += 10_000
    made.acquire()
    made.begin()
    return finish(made)


def waves_mix() -> Maker:
    made = started(*TWO_WAVES)
    made.begin(0)
    made.begin(1)
    finish(made, 0)
    return finish(made, 1)


def too_many_in_flight() -> Maker:
    made = started(*THREE_AT_ONCE)
    for number in range(3):
        made.begin(number)
    for number in range(3):
        finish(made, number)
    return made


def too_many_sessions() -> Maker:
    made = started(step(0), step(1), max_sessions=5)
    for number in range(2):
        made.begin(number)
        finish(made, number)
    return made


def effect_without_an_entry() -> Maker:
    made = started()
    made.begin(without=("journal",))
    made.hand_over()
    return made


def entry_without_an_effect() -> Maker:
    made = started(must_finish=False)
    made.begin(without=("effect",))
    return made


def settled_too_early() -> Maker:
    made = started()
    made.begin()
    made.conclude()
    made.hand_over()
    return made


def skipped_after_its_effect() -> Maker:
    made = started()
    made.begin()
    made.hand_over()
    made.conclude(state="skipped")
    return made


def entry_left_open() -> Maker:
    made = started()
    made.begin()
    made.hand_over()
    return made


def intent_left_open() -> Maker:
    made = Maker(is_admin_call=True)
    made.build_cluster()
    made.acquire()
    made.begin()
    made.hand_over()
    return made


def ends_elsewhere() -> Maker:
    made = started()
    made.begin(destination=C)
    made.hand_over(to=C)
    made.conclude(state="failed")
    return made


def step_forgotten_by_the_resumed_run() -> Maker:
    made = started(*TWO_WAVES)
    made.begin(0)
    return finish(made, 0)


def moves_what_it_was_not_to_begin() -> Maker:
    """A run that was refused must leave what it did not begin where it was."""
    made = started(must_finish=False)
    made.write(BROKER, change(made.unit(BUNDLES[0]), record(ServiceUnitState.RELEASING, 2, C, A)))
    made.hand_over(to=C)
    return made


def without_approval() -> Maker:
    made = good()
    made.facts["approved_at_ms"] = None
    return made


def after_the_window() -> Maker:
    made = good()
    made.facts["ends_at_ms"] = START_MS - 60_000
    return made


def after_the_kill_switch() -> Maker:
    made = started()
    made.write(OPERATOR, put(f"{HOME}/stop", b"{}"))
    made.begin()
    return finish(made)


def bundle_that_is_not_in_the_plan() -> Maker:
    made = good()
    releasing = record(ServiceUnitState.RELEASING, 2, B, A)
    made.write(WRITER, change(made.unit(BUNDLES[2]), releasing))
    return made


def switches_left_off() -> Maker:
    made = started()
    made.configure(WRITER, loadBalancerSheddingEnabled="false")
    made.begin()
    return finish(made)


def switches_of_another_hand_overwritten() -> Maker:
    made = started()
    made.configure(OPERATOR, loadBalancerSheddingEnabled="false")
    made.begin()
    finish(made)
    made.configure(WRITER, loadBalancerSheddingEnabled="true")
    return made


BAD: tuple[tuple[str, Callable[[], Maker]], ...] = (
    ("I1", released_twice),
    ("I1", two_intents_for_a_bundle),
    ("I2", overtaken_writer_writes),
    ("I2", stranger_writes_the_journal),
    ("I2", fence_is_not_checked),
    ("I2", admin_intent_with_an_old_epoch),
    ("I3", version_is_skipped),
    ("I3", writer_forces),
    ("I3", record_that_cannot_be_read),
    ("I4", goes_on_while_a_flight_is_overdue),
    ("I4", never_lands),
    ("I5", boundaries_with_a_gap),
    ("I5", overlapping_bundles),
    ("I6", destination_is_not_registered),
    ("I6", destination_has_restarted_long_ago),
    ("I6", destination_is_drained),
    ("I6", wave_begins_after_a_policy_changed),
    ("I6", destination_is_reserved_for_others),
    ("I6", waves_mix),
    ("I7", too_many_in_flight),
    ("I7", too_many_sessions),
    ("I8", effect_without_an_entry),
    ("I8", entry_without_an_effect),
    ("I8", settled_too_early),
    ("I8", skipped_after_its_effect),
    ("I8", entry_left_open),
    ("I8", intent_left_open),
    ("I9", ends_elsewhere),
    ("I9", step_forgotten_by_the_resumed_run),
    ("I9", moves_what_it_was_not_to_begin),
    ("I10", without_approval),
    ("I10", after_the_window),
    ("I10", after_the_kill_switch),
    ("I10", bundle_that_is_not_in_the_plan),
    ("I11", switches_left_off),
    ("I11", switches_of_another_hand_overwritten),
)


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
    made.write(BROKER, Operation(TxnType.DELETE, f"{ROOT}/loadbalance/brokers/{B}"))
    made.write(BROKER, put(f"{ROOT}/loadbalance/brokers/{B}", b"{}", is_ephemeral=True))
    made.begin()
    assert broken(finish(made)) == set()


def test_override_by_the_leader_is_pulsars_own_affair() -> None:
    made = started(must_finish=False)
    made.begin()
    made.write(BROKER, change(made.unit(BUNDLES[0]), record(ServiceUnitState.OWNED, 3, C, A, force=True)))
    made.conclude(state="failed")
    assert broken(made) == set()


def test_split_with_both_children_is_good() -> None:
    made = started(step(0, kind=StepKind.SPLIT, destination=None, split_boundary=0x20000000))
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
    for child in ("t/n/0x00000000_0x20000000", "t/n/0x20000000_0x40000000"):
        made.write(BROKER, put(made.unit(child), made.owned(A)))
    made.set_boundaries("0x00000000", "0x20000000", "0x40000000", "0x80000000", "0xffffffff")
    made.write(BROKER, change(parent, record(ServiceUnitState.DELETED, 3, None, A)))
    made.write(BROKER, Operation(TxnType.DELETE, parent))
    made.conclude()
    assert find_violations(made.history()) == []
