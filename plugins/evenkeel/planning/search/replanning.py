"""Replanning of a few brokers together, where moving bundles one at a time got stuck or was expensive.

An integer program decides for all bundles of a neighbourhood of brokers at once who owns what, so it finds swaps and
chains that no single move could start. Load above a cap is allowed at a price far above that of any move; there is
always a solution, and it is the best that can be reached.

The program is used three times: around brokers that stay hot, on a small pool as a whole, and on sampled neighbourhoods
of a pool that is inside its band, to find a cheaper plan. Most plans of a pool that differ in a few bundles cost the
same, so the sampling adds noise to the prices: the search keeps moving where it would otherwise stand still, and the
cheapest plan that it passes is the result. The random generator is seeded, so the same pool gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array

from evenkeel.model.load import RESOURCES
from evenkeel.planning.problem.columns import Bools, Floats, Ints
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.programs import SOLVER_ERROR, Program, solve_relaxed, solve_whole

RESOURCE_COUNT = len(RESOURCES)

# Brokers that stay hot: a neighbourhood is the hot broker and this many others, and each hot broker gets at most this
# many neighbourhoods.
NEIGHBOURS = 7
NEIGHBOURHOODS = 2

# A pool with at most this many choices of a new owner is replanned as a whole if its plan is expensive: if it costs
# this many times the least price.
SMALL_POOL_CHOICES = 2_500
EXPENSIVE = 1.15

# Sampled neighbourhoods: a pool is worth the work while its plan costs this many times the least price, and it has at
# most this many choices.
NEAR_ENOUGH = 1.06
MOST_CHOICES = 100_000
SEED = 20_260_000
# Up to this share is added to a bundle's price in the first sample; the noise decreases from sample to sample.
PRICE_NOISE = 0.3
# The weight of a broker without moves to or from the neighbourhood, relative to one with a single such move.
UNRELATED_WEIGHT = 0.3
# In a pool of at most this many brokers, a large neighbourhood is most of the pool and its program takes seconds; pairs
# are enough there.
SMALL_POOL_BROKERS = 8

# A solution one percent above the best is good enough, because exchanges and pruning follow.
GAP = 0.01
# The price of exceeding a cap, or the overload line, by as much as the cap; a move costs about 1.
ABOVE_CAP = 1e5
ABOVE_LINE = 1e7
# No broker is filled beyond this many times its cap; keeps the program's figures small.
MOST_EXCESS = 1e3

HasTime = Callable[[], bool]
Badness = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Effort:
    """The work budget of a replan: unknowns of the first integer program, nodes of its search tree, and attempts.

    Each further attempt has twice as many unknowns.
    """

    columns: int = 250
    nodes: int = 30
    attempts: int = 2


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many brokers are replanned together, with how much effort, and how often per broker of the pool."""

    together: int
    effort: Effort
    samples_per_broker: int


SMALL_POOL_EFFORT = Effort(columns=800)
SMALL_POOL = Sampling(together=2, effort=Effort(columns=100, nodes=10, attempts=1), samples_per_broker=4)
LARGE_POOL = Sampling(together=5, effort=Effort(columns=400, nodes=50, attempts=1), samples_per_broker=8)


def replan_hot_brokers(placement: Placement, prices: Floats, has_time: HasTime) -> bool:
    """Replan hot brokers, hottest first, until none is hot or nothing helps; returns false if time ran out."""
    tries = np.zeros(len(placement.used), dtype=np.int64)
    while (hottest := _hottest(placement, tries)) is not None:
        if not has_time():
            return False
        neighbours = _neighbours(placement, hottest, int(tries[hottest]))
        tries[hottest] += 1
        if not len(neighbours):
            tries[hottest] = NEIGHBOURHOODS
            continue
        together = np.sort(np.append(neighbours, hottest))
        replan(placement, prices, together, Effort())
        if len(together) >= np.count_nonzero(placement.takes_part):
            # That was the whole pool; no other neighbourhood has more to offer.
            return True
    return True


def _hottest(placement: Placement, tries: Ints) -> int | None:
    """The broker furthest above its cap that has tries left."""
    above = (placement.excess() * placement.per_cap).max(axis=1, initial=0.0)
    above[tries >= NEIGHBOURHOODS] = 0.0
    return int(np.argmax(above)) if above.any() else None


def _neighbours(placement: Placement, hot: int, attempt: int) -> Ints:
    """The brokers to replan together with a hot one: those with the most free capacity for its excess.

    Only brokers that may own some of its bundles count. Each attempt takes the next ones in line.
    """
    problem = placement.problem
    classes = np.unique(problem.eligibility_class[placement.owner == hot])
    candidates = problem.eligible[classes].any(axis=0)
    order = placement.roomiest_for(hot)
    in_order: Ints = order[candidates[order]]
    return in_order[attempt * NEIGHBOURS : (attempt + 1) * NEIGHBOURS]


def replan_small_pool(placement: Placement, prices: Floats, least_price: float) -> None:
    """Replan a small pool from its first owners with one program, if the plan so far is far from the least price."""
    problem = placement.problem
    brokers = np.flatnonzero(placement.takes_part)
    is_small = len(brokers) * np.count_nonzero(placement.free) <= SMALL_POOL_CHOICES
    # If a broker is still above its cap, `replan_hot_brokers` has already tried the same.
    if not is_small or placement.shortfall() or placement.price(prices) <= EXPENSIVE * least_price:
        return
    found, score = placement.owner.copy(), placement.score(prices)
    placement.restore(np.where(problem.must_move, placement.owner, problem.owner))
    replan(placement, prices, brokers, SMALL_POOL_EFFORT)
    if score <= placement.score(prices):
        placement.restore(found)


def improve(placement: Placement, prices: Floats, least_price: float, has_time: HasTime) -> bool:
    """Replan sampled neighbourhoods until the plan is near the least price; returns false if time ran out."""
    members = np.flatnonzero(placement.takes_part)
    choices = len(members) * int(np.count_nonzero(placement.free))
    if placement.shortfall() or choices > MOST_CHOICES or len(members) < SMALL_POOL.together:
        return True
    sampling = SMALL_POOL if len(members) <= SMALL_POOL_BROKERS else LARGE_POOL
    generator = np.random.default_rng(SEED)
    best_price, best_owner = placement.price(prices), placement.owner.copy()
    is_done = True
    for noise in np.linspace(PRICE_NOISE, 0.0, sampling.samples_per_broker * len(members)):
        if best_price <= NEAR_ENOUGH * least_price:
            break
        if not has_time():
            is_done = False
            break
        noisy_prices = prices * generator.uniform(1.0, 1.0 + noise, len(prices))
        neighbourhood = _sample_neighbourhood(placement, prices, members, sampling.together, generator)
        replan(placement, noisy_prices, neighbourhood, sampling.effort)
        if (price := placement.price(prices)) < best_price:
            best_price, best_owner = price, placement.owner.copy()
    placement.restore(best_owner)
    return is_done


def _sample_neighbourhood(
    placement: Placement, prices: Floats, members: Ints, together: int, generator: np.random.Generator
) -> Ints:
    """The source and destination of a sampled move, and brokers connected to these by other moves."""
    first, now = placement.problem.owner, placement.owner
    moved = np.flatnonzero(now != first)
    ties = np.zeros((len(placement.used), len(placement.used)))
    np.add.at(ties, (first[moved], now[moved]), 1.0)
    ties += ties.T
    row = int(generator.choice(moved, p=prices[moved] / prices[moved].sum()))
    sampled = np.intersect1d(members, [first[row], now[row]])
    while len(sampled) < together:
        others = np.setdiff1d(members, sampled)
        weight = UNRELATED_WEIGHT + ties[np.ix_(sampled, others)].sum(axis=0)
        sampled = np.append(sampled, generator.choice(others, p=weight / weight.sum()))
    neighbourhood: Ints = np.sort(sampled)
    return neighbourhood


@dataclass(frozen=True, slots=True)
class Choices:
    """Every change of owner that the program may make; `source` and `target` are indices into the neighbourhood."""

    row: Ints
    source: Ints
    target: Ints
    price: Floats


def replan(placement: Placement, prices: Floats, brokers: Ints, effort: Effort) -> None:
    """Replan some brokers together, if that leaves less load above the caps, or the same at a lower price."""
    choices = find_choices(placement, prices, brokers)
    if not len(choices.row):
        return
    program = build_program(placement, choices, brokers)
    relaxed = solve_relaxed(program)
    if relaxed is None:
        return
    is_used = relaxed.x[: len(choices.row)] > SOLVER_ERROR
    promise = np.where(is_used, -np.inf, relaxed.reduced_price[: len(choices.row)])
    order = np.lexsort((np.arange(len(promise)), promise))
    can_fit = relaxed.x[len(choices.row) :].sum() < SOLVER_ERROR
    best, taken = _badness(placement, brokers, choices, order[:0]), order[:0]
    for attempt in range(effort.attempts):
        allowed = np.sort(order[: effort.columns << attempt])
        found = _search(program, allowed, len(choices.row), effort.nodes)
        badness = _badness(placement, brokers, choices, found)
        if badness < best:
            best, taken = badness, found
        if best[:2] == (0.0, 0.0) or not can_fit or len(allowed) == len(order):
            break
    for choice in taken.tolist():
        placement.move(int(choices.row[choice]), int(brokers[choices.target[choice]]))


def _search(program: Program, allowed: Ints, choices: int, nodes: int) -> Ints:
    """Solve the program with the allowed choices only; returns the choices it makes, none if it finds no solution."""
    columns = np.ones(len(program.price), dtype=bool)
    columns[:choices] = False
    columns[allowed] = True
    solved = solve_whole(program.with_columns(columns), nodes, GAP)
    if solved.x is None:
        return allowed[:0]
    found: Ints = allowed[solved.x[: len(allowed)] > 0.5]
    return found


def find_choices(placement: Placement, prices: Floats, brokers: Ints) -> Choices:
    problem = placement.problem
    place = np.full(len(problem.broker_ids), -1, dtype=np.int64)
    place[brokers] = np.arange(len(brokers))
    # The program does not model anti-affinity groups, so their bundles stay where they are.
    rows = np.flatnonzero((place[placement.owner] >= 0) & placement.free & (problem.group < 0))
    now, first = placement.owner[rows], problem.owner[rows]
    may_own = (problem.destinations(rows) & placement.receives)[:, brokers]
    is_first = first[:, None] == brokers[None, :]
    may_own |= is_first
    may_own &= ~(is_first & problem.must_move[rows][:, None]) & (now[:, None] != brokers[None, :])
    at, target = np.nonzero(may_own)
    # Returning to the first owner costs nothing, and a bundle that already moved has paid its price.
    price_after = np.where(is_first[at, target], 0.0, prices[rows[at]])
    price_now = np.where(now == first, 0.0, prices[rows])[at]
    return Choices(rows[at], place[now[at]], target, price_after - price_now)


def build_program(placement: Placement, choices: Choices, brokers: Ints) -> Program:
    """Constraints per broker and resource, per broker's topics and per bundle; unknowns for choices and for excess."""
    problem = placement.problem
    size, count = len(brokers), len(choices.row)
    bundle = np.unique(choices.row, return_inverse=True)[1]
    is_arrival = brokers[choices.target] != problem.owner[choices.row]
    was_arrival = brokers[choices.source] != problem.owner[choices.row]
    topics = problem.topics[choices.row] / placement.topic_limit
    entries = [
        *_resource_entries(placement, choices, brokers),
        (size * RESOURCE_COUNT + choices.target, topics * is_arrival),
        (size * RESOURCE_COUNT + choices.source, -topics * was_arrival),
        (size * (RESOURCE_COUNT + 1) + bundle, np.ones(count)),
    ]
    excess = _excess_unknowns(placement, brokers)
    rows = np.concatenate([row for row, _ in entries] + [excess.row])
    values = np.concatenate([value for _, value in entries] + [np.full(len(excess.row), -1.0)])
    numbers = np.concatenate([np.tile(np.arange(count), len(entries)), count + np.arange(len(excess.row))])
    limit = np.concatenate(
        [
            _room(placement, brokers).ravel(),
            np.maximum(placement.topic_limit - 1 - placement.topics[brokers], 0) / placement.topic_limit,
            np.ones(int(bundle.max()) + 1),
        ]
    )
    return Program(
        price=np.concatenate([choices.price, excess.price]),
        at_most=coo_array((values, (rows, numbers)), shape=(len(limit), count + len(excess.row))).tocsr(),
        limit=limit,
        highest=np.concatenate([np.ones(count), excess.highest]),
        is_whole=np.arange(count + len(excess.row)) < count,
    )


def _resource_entries(placement: Placement, choices: Choices, brokers: Ints) -> list[tuple[Ints, Floats]]:
    """What each choice adds to its target and takes from its source, as a share of their caps."""
    load, per_cap = placement.problem.load[choices.row], placement.per_cap[brokers]
    entries: list[tuple[Ints, Floats]] = []
    for resource in range(RESOURCE_COUNT):
        for place, sign in ((choices.target, 1.0), (choices.source, -1.0)):
            entries.append((place * RESOURCE_COUNT + resource, sign * load[:, resource] * per_cap[place, resource]))
    return entries


def _room(placement: Placement, brokers: Ints) -> Floats:
    """Free capacity of each broker as a share of its cap; negative if it carries too much."""
    used, cap = placement.used[brokers], placement.receive_cap[brokers]
    # Leave a margin for the solver's rounding, but never so much that the present placement becomes infeasible.
    aim = np.maximum(cap * (1 - SOLVER_ERROR), np.minimum(used, cap))
    room: Floats = (aim - used) * placement.per_cap[brokers]
    return room


@dataclass(frozen=True, slots=True)
class _Excess:
    """Unknowns for load above the caps: the constraint that each relaxes, its price and its upper bound."""

    row: Ints
    price: Floats
    highest: Floats


def _excess_unknowns(placement: Placement, brokers: Ints) -> _Excess:
    """Excess up to the overload line, and above it. No broker gets worse, except to relieve one above the line.

    A broker may leave its band only in resources in which another broker is above the line, so that no peak rises.
    """
    used, per_cap = placement.used[brokers], placement.per_cap[brokers]
    cap, line = placement.receive_cap[brokers], placement.line[brokers]
    relieves_overload = (used > line).any(axis=0)
    up_to_line = np.maximum(line - cap, 0)
    below = np.where(relieves_overload, up_to_line, np.clip(used - cap, 0, up_to_line)) * per_cap
    above = np.maximum(used - np.maximum(line, cap), 0) * per_cap
    highest = np.concatenate([below.ravel(), above.ravel()])
    price = np.repeat([ABOVE_CAP, ABOVE_LINE], below.size)
    row = np.tile(np.arange(below.size), 2)
    is_needed = highest > 0
    return _Excess(row[is_needed], price[is_needed], np.minimum(highest[is_needed] + SOLVER_ERROR, MOST_EXCESS))


def _badness(placement: Placement, brokers: Ints, choices: Choices, taken: Ints) -> Badness:
    """Load above the overload line, load above the caps, and price after these choices; lower is better."""
    used = placement.used[brokers].copy()
    load = placement.problem.load[choices.row[taken]]
    np.subtract.at(used, choices.source[taken], load)
    np.add.at(used, choices.target[taken], load)
    is_counted: Bools = placement.takes_part[brokers]
    per_cap = placement.per_cap[brokers]
    above_line = np.maximum(used - placement.line[brokers], 0) * per_cap
    above_cap = np.maximum(used - placement.cap[brokers], 0) * per_cap
    price = float(choices.price[taken].sum())
    return float(above_line[is_counted].sum()), float(above_cap[is_counted].sum()), price
