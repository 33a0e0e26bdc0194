"""Plans a few brokers anew together, where moving bundles one by one got stuck.

An integer program decides for all bundles of the brokers at once who owns what: it finds swaps and chains that no
single move can begin. Load above a cap is allowed at a price far above that of any move, so there is always an
answer, and it is the best reachable one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array

from evenkeel.model.load import RESOURCES
from evenkeel.planning.arrays import Bools, Floats, Ints
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.programs import SOLVER_ERROR, Program, solve_relaxed, solve_whole

# A hundredth above the best is good enough: exchanges and pruning follow.
GAP = 0.01
# Prices of going above a cap, or above the overload line, by as much as the cap; a move costs about 1.
ABOVE_CAP = 1e5
ABOVE_LINE = 1e7

# No broker is filled beyond this many times its cap; a bound that keeps the program's figures small.
MOST_EXCESS = 1e3
RESOURCE_COUNT = len(RESOURCES)

Badness = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to search: the unknowns of the first integer program, how many nodes of its tree, and attempts.

    Each further attempt has twice as many unknowns.
    """

    columns: int = 250
    nodes: int = 30
    attempts: int = 2


@dataclass(frozen=True, slots=True)
class Choices:
    """Every change of owner that the program may make; `source` and `target` are places among the brokers."""

    row: Ints
    source: Ints
    target: Ints
    price: Floats


def replan(placement: Placement, prices: Floats, brokers: Ints, effort: Effort) -> None:
    """Replan some brokers together, if that leaves less above the caps, or as little at a lower price."""
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
    """The choices that a search among the allowed ones takes; none where it finds no answer."""
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
    # Counts of anti-affinity groups are no part of the program, so their bundles stay where they are.
    rows = np.flatnonzero((place[placement.owner] >= 0) & placement.free & (problem.group < 0))
    now, first = placement.owner[rows], problem.owner[rows]
    may_own = (problem.destinations(rows) & placement.receives)[:, brokers]
    is_first = first[:, None] == brokers[None, :]
    may_own |= is_first
    may_own &= ~(is_first & problem.must_move[rows][:, None]) & (now[:, None] != brokers[None, :])
    at, target = np.nonzero(may_own)
    # Back to its first owner a bundle costs nothing, and what was moved already has paid.
    price_after = np.where(is_first[at, target], 0.0, prices[rows[at]])
    price_now = np.where(now == first, 0.0, prices[rows])[at]
    return Choices(rows[at], place[now[at]], target, price_after - price_now)


def build_program(placement: Placement, choices: Choices, brokers: Ints) -> Program:
    """A row for each broker and resource, one for each broker's topics, one for each bundle; then what is too much."""
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
    """What each choice adds to its target and takes from its source, as parts of their caps."""
    load, per_cap = placement.problem.load[choices.row], placement.per_cap[brokers]
    entries: list[tuple[Ints, Floats]] = []
    for resource in range(RESOURCE_COUNT):
        for place, sign in ((choices.target, 1.0), (choices.source, -1.0)):
            entries.append((place * RESOURCE_COUNT + resource, sign * load[:, resource] * per_cap[place, resource]))
    return entries


def _room(placement: Placement, brokers: Ints) -> Floats:
    """How much more each broker may carry as a part of its cap; below 0 where it carries too much."""
    used, cap = placement.used[brokers], placement.receive_cap[brokers]
    # Room is left for the solver's rounding, but never so much that the present placement would not do.
    aim = np.maximum(cap * (1 - SOLVER_ERROR), np.minimum(used, cap))
    room: Floats = (aim - used) * placement.per_cap[brokers]
    return room


@dataclass(frozen=True, slots=True)
class _Excess:
    """Unknowns for load above the caps: the row that each relieves, its price and how large it may get."""

    row: Ints
    price: Floats
    highest: Floats


def _excess_unknowns(placement: Placement, brokers: Ints) -> _Excess:
    """Up to the overload line, then above it; nobody may get worse, but for relief from above the line.

    A broker may leave its band only in resources in which another is above the line, so that no peak rises.
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
    """Load above the overload line, load above the caps, and the price, once these choices are made."""
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
