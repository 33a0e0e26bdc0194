"""Known-bad histories for I6 and I7: destinations that are not allowed, waves that mix, budgets overrun."""

from __future__ import annotations

from faults.made_histories import (
    BROKER,
    HOME,
    MORE_THAN_SLACK_MS,
    OPERATOR,
    ROOT,
    B,
    Bad,
    Maker,
    finish,
    put,
    started,
    step,
)
from faults.txn_log import Operation, TxnType

TWO_WAVES = (step(0), step(1, wave=1))
THREE_AT_ONCE = (step(0), step(1), step(2))


def destination_is_not_registered() -> Maker:
    made = started()
    made.write(BROKER, Operation(TxnType.DELETE, f"{ROOT}/loadbalance/brokers/{B}"))
    made.begin()
    return finish(made)


def destination_has_restarted_long_ago() -> Maker:
    made = started()
    made.write(BROKER, Operation(TxnType.DELETE, f"{ROOT}/loadbalance/brokers/{B}"))
    made.write(BROKER, put(f"{ROOT}/loadbalance/brokers/{B}", b"{}", is_ephemeral=True))
    made.now_ms += MORE_THAN_SLACK_MS
    made.begin()
    return finish(made)


def destination_is_drained() -> Maker:
    made = started()
    made.write(OPERATOR, put(f"{HOME}/draining/{B}", b"{}"))
    made.now_ms += MORE_THAN_SLACK_MS
    made.begin()
    return finish(made)


def wave_begins_after_a_policy_changed() -> Maker:
    made = started()
    made.write(OPERATOR, put(f"{ROOT}/admin/clusters/fleet/namespaceIsolationPolicies", b"{}"))
    made.now_ms += MORE_THAN_SLACK_MS
    made.begin()
    return finish(made)


def destination_is_reserved_for_others() -> Maker:
    made = Maker(facts={"policy_paths": frozenset()})
    made.build_cluster()
    policy = b"""{"p": {"namespaces": ["other/.*"], "primary": ["b"], "secondary": [],
                  "auto_failover_policy": {"parameters": {"min_limit": "1"}}}}"""
    made.write(OPERATOR, put(f"{ROOT}/admin/clusters/fleet/namespaceIsolationPolicies", policy))
    made.now_ms += MORE_THAN_SLACK_MS
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


def wave_begins_after_a_change_in_the_other_store() -> Maker:
    made = started(*TWO_WAVES)
    made.facts["policy_edits_ms"] = (made.now_ms,)
    made.begin(0)
    finish(made, 0)
    made.now_ms += MORE_THAN_SLACK_MS
    made.begin(1)
    return finish(made, 1)


BAD: Bad = (
    ("I6", destination_is_not_registered),
    ("I6", destination_has_restarted_long_ago),
    ("I6", destination_is_drained),
    ("I6", wave_begins_after_a_policy_changed),
    ("I6", wave_begins_after_a_change_in_the_other_store),
    ("I6", destination_is_reserved_for_others),
    ("I6", waves_mix),
    ("I7", too_many_in_flight),
    ("I7", too_many_sessions),
)
