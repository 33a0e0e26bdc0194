"""Cuts ordered moves into waves, each of which is legal for any subset and any order of its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.model.settings import Settings
from evenkeel.planning.pool_plan import Vector


@dataclass(frozen=True, slots=True)
class Transfer:
    """What the waves have to know of a move: from where, to where, and the load that goes with it."""

    source: str
    destination: str
    load: Vector


@dataclass(frozen=True, slots=True)
class Waves:
    """Places in the given order, wave by wave, and those for which no legal wave was found."""

    waves: tuple[tuple[int, ...], ...]
    impossible: tuple[int, ...]


def cut_waves(
    transfers: Sequence[Transfer], used: Mapping[str, Vector], ceiling: Mapping[str, Vector], settings: Settings
) -> Waves:
    """Fill the canary, then wave after wave, in the given order of urgency.

    A move enters a wave only if its destination stays at or below its ceiling with everything that the wave brings,
    and without what the wave takes away: then it does not matter which steps succeed, and in which order.
    """
    loads = dict(used)
    remaining = list(range(len(transfers)))
    waves: list[tuple[int, ...]] = []
    while remaining:
        size = settings.wave_steps if waves else settings.canary_steps
        wave = _fill(remaining, transfers, loads, ceiling, size)
        if not wave:
            break
        for place in wave:
            transfer = transfers[place]
            loads[transfer.source] = _minus(loads[transfer.source], transfer.load)
            loads[transfer.destination] = plus(loads[transfer.destination], transfer.load)
        waves.append(tuple(wave))
        taken = set(wave)
        remaining = [place for place in remaining if place not in taken]
    return Waves(tuple(waves), tuple(remaining))


def _fill(
    remaining: Sequence[int],
    transfers: Sequence[Transfer],
    loads: Mapping[str, Vector],
    ceiling: Mapping[str, Vector],
    size: int,
) -> list[int]:
    # The fair share: the wave's steps divided by the brokers that still have to give, or to take.
    most_from = -(-size // len({transfers[place].source for place in remaining}))
    most_to = -(-size // len({transfers[place].destination for place in remaining}))
    gives: Counter[str] = Counter()
    takes: Counter[str] = Counter()
    highest: dict[str, Vector] = {}
    wave: list[int] = []
    for place in remaining:
        transfer = transfers[place]
        source, destination = transfer.source, transfer.destination
        if gives[source] >= most_from or takes[destination] >= most_to:
            continue
        after = plus(highest.get(destination, loads[destination]), transfer.load)
        if not is_within(after, ceiling[destination]):
            continue
        highest[destination] = after
        gives[source] += 1
        takes[destination] += 1
        wave.append(place)
        if len(wave) == size:
            break
    return wave


def plus(left: Vector, right: Vector) -> Vector:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def _minus(left: Vector, right: Vector) -> Vector:
    return left[0] - right[0], left[1] - right[1], left[2] - right[2]


def is_within(load: Vector, ceiling: Vector) -> bool:
    return load[0] <= ceiling[0] and load[1] <= ceiling[1] and load[2] <= ceiling[2]
