"""Known-bad histories for I1, I2 and I8: steps twice, writes of others, half a transaction."""

from __future__ import annotations

from evenkeel.model.service_unit import ServiceUnitState
from faults.made_histories import (
    BUNDLES,
    RIVAL,
    STRANGER,
    WRITER,
    A,
    B,
    Bad,
    Maker,
    change,
    finish,
    good,
    record,
    started,
    step,
)


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


def node_of_another_writer_removed() -> Maker:
    made = started()
    made.begin()
    finish(made)
    made.release(RIVAL)
    return made


BAD: Bad = (
    ("I2", node_of_another_writer_removed),
    ("I1", released_twice),
    ("I1", two_intents_for_a_bundle),
    ("I2", overtaken_writer_writes),
    ("I2", stranger_writes_the_journal),
    ("I2", fence_is_not_checked),
    ("I2", admin_intent_with_an_old_epoch),
    ("I8", effect_without_an_entry),
    ("I8", entry_without_an_effect),
    ("I8", settled_too_early),
    ("I8", skipped_after_its_effect),
    ("I8", entry_left_open),
    ("I8", intent_left_open),
)
