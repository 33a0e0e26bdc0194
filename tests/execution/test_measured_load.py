"""What `verify` says: from measured load, with the brokers that are silent, and with the topics that lost producers."""

from __future__ import annotations

import dataclasses

from evenkeel.execution.measured_load import BrokerCheck, describe_measured_load
from evenkeel.execution.producers import compare_producers
from evenkeel.model.plan import BrokerBalance
from evenkeel.model.snapshot import Topic
from support.small_plan import POOL

RUN_OF_A = "t/a/0x00000000_0x80000000"


def measured(
    *rows: tuple[str, int, int, int | None], band: int = 500, pools: tuple[object, ...] = ()
) -> tuple[str, ...]:
    """The sentences about brokers of 1,000: name, before, predicted, measured; each `pools` entry is a PoolFigures."""
    checks = [BrokerCheck(name, "cpu", 1_000, before, then, now, band) for name, before, then, now in rows]
    table = [
        BrokerBalance(name, "lone" if name == "b9" else "p", "cpu", 1_000, before, then, band)
        for name, before, then, _ in rows
    ]
    return describe_measured_load(checks, table, pools)  # type: ignore[arg-type]


def test_verdict_comes_from_what_was_measured_not_from_what_was_predicted() -> None:
    assert measured(("b1", 800, 450, 620), ("b2", 100, 450, 430)) == (
        "1 of the 2 brokers that have reported their load is measured above its band:",
        "b1 is at 62.0 % of its CPU limit, where its band ends at 50.0 %; the plan predicted 45.0 %.",
        "The busiest broker is now b1, measured at 62.0 % of its CPU limit.",
    )
    assert measured(("b1", 800, 510, 450), ("b2", 100, 450, 430)) == (
        "Every broker that has reported its load (2) is measured inside its band.",
        "The busiest broker is now b1, measured at 45.0 % of its CPU limit.",
    )


def test_broker_without_a_report_is_named_and_does_not_count_as_inside() -> None:
    assert measured(("b1", 800, 450, 450), ("b2", 100, 450, None)) == (
        "No load report since the run from b2: the load there is not known.",
        "Every broker that has reported its load (1) is measured inside its band.",
        "The busiest broker is now b1, measured at 45.0 % of its CPU limit.",
    )
    assert measured(("b1", 800, 450, None)) == ("No load report since the run from b1: the load there is not known.",)


def test_broker_that_stays_high_in_a_pool_of_its_own_is_explained_by_its_policy() -> None:
    lone = dataclasses.replace(POOL, pool="lone", brokers=1, policies=("vip",))
    shared = dataclasses.replace(POOL, pool="p", brokers=2, policies=())
    said = measured(("b1", 800, 450, 450), ("b2", 1, 440, 440), ("b9", 660, 660, 660), band=700, pools=(lone, shared))
    assert said[-1] == (
        "b9 stays at 66.0 % of its CPU limit: it is in a pool of its own (isolation policy vip), so its bundles may go "
        "nowhere else."
    )
    low = measured(("b1", 800, 450, 450), ("b9", 160, 160, 160), band=700, pools=(lone, shared))
    assert not any("pool of its own" in sentence for sentence in low), "nobody asks about a broker that is not high"


def test_plan_by_hand_has_no_bands_to_speak_of() -> None:
    assert measured(("b1", 800, 450, 450), band=0) == (
        "The busiest broker is now b1, measured at 45.0 % of its CPU limit.",
    )


def topic(name: str, producers: int, bundle: str = RUN_OF_A) -> Topic:
    return Topic(f"persistent://t/a/{name}", bundle, 1, producers=producers)


def test_topic_of_a_moved_bundle_that_lost_its_producers_is_a_deviation() -> None:
    before = [topic("silent", 2), topic("fewer", 3), topic("same", 1), topic("gone", 1), topic("idle", 0)]
    after = [topic("silent", 0), topic("fewer", 2), topic("same", 1), topic("idle", 0)]
    changes = compare_producers(before, after, {RUN_OF_A})
    assert changes.silenced == (
        "topic persistent://t/a/gone had 1 producer before the run and has none now",
        "topic persistent://t/a/silent had 2 producers before the run and has none now",
    )
    assert changes.fewer == ("Topic persistent://t/a/fewer has 2 producers; before the run it had 3.",)


def test_topics_of_other_bundles_and_clusters_without_topics_are_not_compared() -> None:
    elsewhere = "t/b/0x00000000_0x80000000"
    before = [topic("one", 2, elsewhere)]
    assert compare_producers(before, [topic("one", 0, elsewhere)], {RUN_OF_A}).silenced == ()
    assert compare_producers([topic("one", 2)], [], {RUN_OF_A}).silenced == ()
    # a split gives the topic another bundle, which the plan then moves
    assert compare_producers(before, [topic("one", 0, RUN_OF_A)], {RUN_OF_A}).silenced
