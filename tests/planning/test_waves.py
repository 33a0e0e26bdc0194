"""Waves are fair, and legal whichever of their steps succeed."""

from __future__ import annotations

from collections import Counter

from evenkeel.model.settings import Settings
from evenkeel.planning.pool_plan import Vector
from evenkeel.planning.waves import Transfer, cut_waves


def flat(load: int) -> Vector:
    return load, load, load


def test_canary_comes_first_and_waves_are_filled_in_order() -> None:
    transfers = [Transfer("a", "b", flat(1)) for _ in range(6)]
    used, ceiling = {"a": flat(10), "b": flat(0)}, {"a": flat(99), "b": flat(99)}
    cut = cut_waves(transfers, used, ceiling, Settings(canary_steps=1, wave_steps=3))
    assert cut.waves == ((0,), (1, 2, 3), (4, 5))
    assert cut.impossible == ()


def test_no_broker_has_more_than_its_fair_share_of_a_wave() -> None:
    # a has most of the steps, but c gives as many in each wave as long as it has any
    transfers = [Transfer("a", "b", flat(1))] * 6 + [Transfer("c", "d", flat(1))] * 3
    used = {name: flat(10) for name in "abcd"}
    ceiling = {name: flat(99) for name in "abcd"}
    cut = cut_waves(transfers, used, ceiling, Settings(canary_steps=1, wave_steps=4))
    assert Counter(transfers[place].source for place in cut.waves[1]) == {"a": 2, "c": 2}


def test_destination_waits_until_an_earlier_wave_made_room() -> None:
    # b is full: what leaves it goes first, although what comes is more urgent
    transfers = [Transfer("a", "b", flat(30)), Transfer("b", "c", flat(30))]
    used, ceiling = {"a": flat(90), "b": flat(80), "c": flat(0)}, {name: flat(85) for name in "abc"}
    assert cut_waves(transfers, used, ceiling, Settings(canary_steps=2)).waves == ((1,), (0,))


def test_exchange_between_full_brokers_has_no_legal_order() -> None:
    transfers = [Transfer("a", "b", flat(30)), Transfer("b", "a", flat(20))]
    used, ceiling = {"a": flat(84), "b": flat(80)}, {name: flat(85) for name in "ab"}
    cut = cut_waves(transfers, used, ceiling, Settings())
    assert cut.waves == ()
    assert cut.impossible == (0, 1)
