"""The order of the moves: a plan may be cut short anywhere."""

from __future__ import annotations

import random

import pytest

from evenkeel.planning.cluster.cluster_brokers import PooledMove, loads_after
from evenkeel.planning.cluster.urgency import order_by_urgency
from support.moves import broker, by_name, move


def test_repairs_come_first_then_relief_from_overload_then_balance() -> None:
    brokers = by_name(broker("hot", 800), broker("full", 900), broker("cold", 100))
    balance, relief = move("hot>cold", 200, benefit=9), move("full>cold", is_relief=True)
    repair = move("cold>hot", 1, is_repair=True)
    assert order_by_urgency([balance, relief, repair], brokers) == [repair, relief, balance]


def test_next_move_is_always_off_the_worst_broker() -> None:
    # a: 800, b: 700; after 150 off a, b is the worst; then a again
    brokers = by_name(broker("a", 800), broker("b", 700), broker("c", 0), broker("d", 0))
    first, third = move("a>c", 150, benefit=2), move("a>c", 100, benefit=1)
    second = move("b>d", 100)
    assert order_by_urgency([third, second, first], brokers) == [first, second, third]


def test_of_one_brokers_moves_the_one_that_takes_most_off_is_first_then_the_cheapest_then_by_name() -> None:
    brokers = by_name(broker("a", 800), broker("b", 0))
    ordered = [
        move("a>b", benefit=5, client_ms=900),
        move("a>b", benefit=3, client_ms=10),
        move("a>b", benefit=3, client_ms=20, bundle="t/ns/1"),
        move("a>b", benefit=3, client_ms=20, bundle="t/ns/2"),
    ]
    assert order_by_urgency(reversed(ordered), brokers) == ordered


def test_what_makes_room_goes_before_what_needs_it() -> None:
    # an exchange: with the large bundle first, b would be higher than anyone was before
    brokers = by_name(broker("a", 550), broker("b", 450))
    large, small = move("a>b", 200, benefit=1), move("b>a", 150)
    assert order_by_urgency([large, small], brokers) == [small, large]


def test_broker_without_a_band_is_no_reason_to_hurry() -> None:
    brokers = by_name(broker("unknown", 800, band=0), broker("a", 600), broker("b", 0))
    first, last = move("a>b"), move("unknown>b")
    assert order_by_urgency([last, first], brokers) == [first, last]


@pytest.mark.parametrize("seed", range(10))
def test_order_is_total_and_does_not_depend_on_the_order_of_the_input(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"b{number}" for number in range(8)]
    brokers = by_name(*(broker(name, chance.randrange(300, 900)) for name in names))
    moves = [
        move(">".join(chance.sample(names, 2)), chance.randrange(50), benefit=chance.randrange(3), client_ms=5)
        for _ in range(80)
    ]
    ordered = order_by_urgency(moves, brokers)
    chance.shuffle(moves)
    assert order_by_urgency(moves, brokers) == ordered, f"seed {seed}"
    assert sorted(map(id, ordered)) == sorted(map(id, moves))


@pytest.mark.parametrize("seed", range(10))
def test_balance_never_gets_worse_along_the_order(seed: int) -> None:
    # hot brokers give to cold ones, as a plan for balance does
    chance = random.Random(seed)
    hot, cold = [f"h{number}" for number in range(5)], [f"c{number}" for number in range(5)]
    brokers = by_name(
        *(broker(name, chance.randrange(600, 900)) for name in hot), *(broker(name, 100) for name in cold)
    )
    moves = [move(f"{chance.choice(hot)}>{chance.choice(cold)}", chance.randrange(5, 30)) for _ in range(60)]
    ordered = order_by_urgency(moves, brokers)
    peaks = [_peak(ordered[:done], brokers) for done in range(len(ordered) + 1)]
    assert peaks == sorted(peaks, reverse=True), f"seed {seed}"
    assert peaks[-1] < peaks[0], f"seed {seed}"


def _peak(moves: list[PooledMove], brokers: dict) -> int:  # type: ignore[type-arg]
    return max(load[0] for load in loads_after(brokers, moves).values())
