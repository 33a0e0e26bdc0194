"""Waves are fair, cheap at first, and legal whichever of their steps succeed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.cluster_brokers import PooledMove
from evenkeel.planning.cluster.waves import Waves
from support.moves import broker, cut, move


def test_waves_are_filled_in_the_given_order() -> None:
    waves = cut([move("a>b") for _ in range(6)], [broker("a", 100), broker("b", 0)], Settings(wave_steps=3))
    assert waves == Waves(((0,), (1, 2, 3), (4, 5)), ())


def test_canary_is_the_cheapest_move_that_may_go_first() -> None:
    # the cheapest has to wait until c>a made room
    moves = [move("a>b", client_ms=900), move("b>c", 30, client_ms=10), move("a>b", client_ms=500), move("c>a", 30)]
    brokers = [broker("a", 200), broker("b", 200), broker("c", 830)]
    assert cut(moves, brokers, Settings()).waves == ((2,), (0, 3), (1,))


def test_broker_with_most_of_the_moves_gives_them_evenly_over_the_waves() -> None:
    # a gives twice as many as c, in each wave, although all of its moves are more urgent
    moves = [*(move("a>b") for _ in range(8)), *(move("c>d") for _ in range(4)), move("c>d", client_ms=1)]
    waves = cut(moves, [broker(name, 100) for name in "abcd"], Settings(wave_steps=6)).waves
    assert [Counter(moves[place].source for place in wave) for wave in waves] == [{"c": 1}, *[{"a": 4, "c": 2}] * 2]


def test_broker_that_takes_most_of_the_moves_takes_them_evenly_over_the_waves() -> None:
    moves = [*(move("a>b") for _ in range(8)), *(move("a>c") for _ in range(4)), move("a>c", client_ms=1)]
    waves = cut(moves, [broker(name, 100) for name in "abc"], Settings(wave_steps=6)).waves
    assert [Counter(moves[place].destination for place in wave) for wave in waves[1:]] == [{"b": 4, "c": 2}] * 2


@pytest.mark.parametrize(("share", "most"), [(0.0, 1), (0.2, 2), (0.35, 4), (1.0, 7)])
def test_most_urgent_source_has_its_share_of_the_first_waves(share: float, most: int) -> None:
    # ten sources with eight moves each, those of the first more urgent than those of the next; one is the canary
    names = [f"s{number}" for number in range(10)]
    moves = [move(f"{name}>d{number}") for name in names for number in range(8)]
    brokers = [*(broker(name, 100) for name in names), *(broker(f"d{number}", 0) for number in range(8))]
    settings = Settings(wave_steps=10, wave_broker_share=share)
    second = Counter(moves[place].source for place in cut(moves, brokers, settings).waves[1])
    assert second.total() == 10
    assert second["s0"] == most


def test_last_moves_share_one_wave() -> None:
    moves = [*(move("a>b") for _ in range(7)), move("c>d")]
    assert cut(moves, [broker(name, 100) for name in "abcd"], Settings(wave_steps=7)).waves[1:] == (
        (1, 2, 3, 4, 5, 6, 7),
    )


def test_destination_waits_until_an_earlier_wave_made_room() -> None:
    # b is full: what leaves it goes first, although what comes is more urgent
    moves = [move("a>b", 300), move("b>c", 300)]
    brokers = [broker("a", 900), broker("b", 800), broker("c", 0)]
    assert cut(moves, brokers, Settings(canary_steps=2)).waves == ((1,), (0,))


def test_small_move_behind_a_large_one_that_can_never_go_is_found() -> None:
    moves = [move("a>b", 1, client_ms=1), move("a>b", 300), move("a>b", 20)]
    waves = cut(moves, [broker("a", 900), broker("b", 800)], Settings())
    assert waves == Waves(((0,), (2,)), (1,))


def test_exchange_between_full_brokers_has_no_legal_order() -> None:
    waves = cut([move("a>b", 300), move("b>a", 200)], [broker("a", 840), broker("b", 800)], Settings())
    assert waves == Waves((), (0, 1))


def test_topic_limit_holds_with_everything_arrived_and_nothing_left() -> None:
    # b has 6 topics of 10 and gives 5: the second and the last move wait for that
    moves = [move("a>b", topics=3), move("a>b", topics=3), move("b>c", topics=5), move("a>b", topics=2)]
    brokers = [broker("a", 100, topics=8), broker("b", 100, topics=6), broker("c", 0)]
    settings = Settings(broker_max_topics=10, canary_steps=4)
    assert cut(moves, brokers, settings).waves == ((0, 2), (1, 3))


def test_broker_at_its_topic_limit_takes_nothing() -> None:
    moves = [move("a>b", topics=0)]
    assert cut(moves, [broker("a", 100), broker("b", 0, topics=10)], Settings(broker_max_topics=10)).impossible == (0,)


def test_group_is_never_more_crowded_on_the_way_than_before() -> None:
    # two of the group on a and on b: b takes one of a only after one of b has gone to c
    moves = [move("a>b", group="g"), move("b>c", group="g")]
    brokers = [broker(name, 100) for name in "abc"]
    groups = {("g", "a"): 2, ("g", "b"): 2}
    assert cut(moves, brokers, Settings(canary_steps=2), groups).waves == ((1,), (0,))


def test_failure_domain_is_never_more_crowded_on_the_way_than_before() -> None:
    # one of the group in each zone: the exchange of both would put two into one zone for a moment
    brokers = [broker("a", 100, domain="east"), broker("b", 100, domain="west"), broker("c", 0, domain="west")]
    groups = {("g", "a"): 1, ("g", "b"): 1}
    assert cut([move("a>c", group="g"), move("b>a", group="g")], brokers, Settings(), groups).impossible == (0, 1)
    # within its zone a bundle may move freely
    assert cut([move("b>c", group="g")], brokers, Settings(), groups).waves == ((0,),)


@pytest.mark.parametrize(
    ("budget", "waves"),
    [
        ({}, ((0,), (1, 2, 3, 4))),
        ({"wave_max_sessions": 20}, ((0,), (1, 2), (3, 4))),
        ({"wave_max_client_seconds": 1.9}, ((0,), (1,), (2,), (3,), (4,))),
        ({"wave_max_moved_bytes_per_s": 65}, ((0,), (1, 2, 3), (4,))),
    ],
    ids=["none", "sessions", "client-seconds", "bytes"],
)
def test_wave_ends_where_its_budget_does(budget: dict[str, float], waves: tuple[tuple[int, ...], ...]) -> None:
    # each move has 10 sessions, 1 client-second and 20 bytes/s
    moves = [move("a>b") for _ in range(5)]
    assert cut(moves, [broker("a", 100), broker("b", 0)], Settings(**budget)).waves == waves  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(30))
def test_any_subset_of_a_wave_in_any_order_is_legal(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"b{number}" for number in range(6)]
    brokers = [
        broker(name, chance.randrange(300, 900), topics=chance.randrange(60), domain=f"zone-{index % 2}")
        for index, name in enumerate(names)
    ]
    moves = [_random_move(chance, names) for _ in range(60)]
    groups = Counter((str(one.move.group), one.source) for one in moves if one.move.group)
    settings = Settings(broker_max_topics=70, wave_steps=8)
    cut_up = cut(moves, brokers, settings, groups)
    assert sorted([*cut_up.impossible, *(place for wave in cut_up.waves for place in wave)]) == list(range(60))
    assert len(cut_up.waves) > 3, f"seed {seed}"
    replay = _Replay(brokers, groups)
    for wave in cut_up.waves:
        for _ in range(4):
            some = chance.sample(wave, chance.randint(1, len(wave)))
            for done in range(1, len(some) + 1):
                replay.assert_legal([moves[place] for place in some[:done]], settings, f"seed {seed}")
        replay.done += [moves[place] for place in wave]


class _Replay:
    """Counts everything anew for each state, by the rules' own words."""

    def __init__(self, brokers: list, groups: Counter) -> None:  # type: ignore[type-arg]
        self.brokers, self.groups = brokers, groups
        self.done: list[PooledMove] = []

    def assert_legal(self, some: list[PooledMove], settings: Settings, hint: str) -> None:
        moved = [*self.done, *some]
        counts = Counter(self.groups)
        for one in moved:
            if one.move.group:
                counts[one.move.group, one.source] -= 1
                counts[one.move.group, one.destination] += 1
        assert all(count <= self._peak(self.groups, group) for (group, _), count in counts.items()), hint
        assert all(
            count <= self._peak(self._by_domain(self.groups), group)
            for (group, _), count in self._by_domain(counts).items()
        ), hint
        for one in self.brokers:
            came = [m.move for m in moved if m.destination == one.broker_id]
            left = [m.move for m in moved if m.source == one.broker_id]
            used = one.used[0] + sum(m.load[0] for m in came) - sum(m.load[0] for m in left)
            assert used <= max(one.overload_limit[0], one.used[0]), hint
            topics = one.topics + sum(m.topics for m in came) - sum(m.topics for m in left)
            assert topics < settings.broker_max_topics or topics <= one.topics, hint

    def _by_domain(self, counts: Counter) -> Counter:  # type: ignore[type-arg]
        domains = {one.broker_id: one.domain for one in self.brokers}
        by_domain: Counter[tuple[str, str]] = Counter()
        for (group, name), count in counts.items():
            by_domain[group, domains[name]] += count
        return by_domain

    def _peak(self, counts: Counter, group: str) -> int:  # type: ignore[type-arg]
        return max(count for (its_group, _), count in counts.items() if its_group == group)


def _random_move(chance: random.Random, names: list[str]) -> PooledMove:
    source, destination = chance.sample(names, 2)
    group = chance.choice([None, None, "g", "h"])
    return move(f"{source}>{destination}", chance.randrange(1, 60), topics=chance.randrange(4), group=group)
