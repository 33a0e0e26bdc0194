"""Collect what explains a move and does not depend on the rest of the plan: why the bundle, and who may own it.

How full its brokers end up is known only once budgets and waves have cut the plan; the cluster's reasons say that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenkeel.planning.problem.columns import Bools, Ints
from evenkeel.planning.problem.problem import Mobility, PoolProblem
from evenkeel.planning.search.placement import Placement


@dataclass(frozen=True, slots=True)
class Grounds:
    """What the reason of a move is made of; figures are from before the plan.

    `must_move` says which rule does not let the bundle stay; it is empty for a move for balance. `resource` is the one
    that the move is explained by: the excess of its source that the bundle reduces the most, or what it needs most of.
    `may_move` counts the bundles of the source that may move, itself included, `larger` those that carry more of the
    resource, `cheaper` those with fewer sessions for what they carry. `receivers` is the bundle's class: the index of
    the brokers that may receive it.
    """

    must_move: str
    resource: int
    may_move: int
    larger: int
    cheaper: int
    receivers: int


def collect_grounds(placement: Placement, rows: Ints) -> list[Grounds]:
    """Collect the grounds of the moves of these bundles."""
    problem = placement.problem
    ranks = rank_bundles(placement, rows)
    columns = (ranks.resource, ranks.may_move, ranks.larger, ranks.cheaper, problem.eligibility_class[rows])
    return [
        Grounds(_why_it_must(problem, row) if problem.must_move[row] else "", *its)
        for row, *its in zip(rows.tolist(), *(column.tolist() for column in columns), strict=True)
    ]


def list_receivers(problem: PoolProblem) -> tuple[tuple[int, ...], ...]:
    """The brokers that may receive the bundles of each class."""
    return tuple(tuple(np.flatnonzero(may & problem.can_receive).tolist()) for may in problem.eligible)


def _why_it_must(problem: PoolProblem, row: int) -> str:
    owner = int(problem.owner[row])
    broker, state = problem.broker_ids[owner], problem.states[owner]
    if problem.must_be_emptied[owner]:
        return f"{broker} is {state} and is being emptied"
    policy = problem.class_policies[int(problem.eligibility_class[row])]
    namespace = problem.namespaces[row]
    if policy is None:
        return f"{broker} is reserved by an isolation policy that does not name {namespace}"
    return f"isolation policy {policy} does not allow {namespace} on {broker}"


@dataclass(frozen=True, slots=True)
class Ranks:
    """For each move, how the bundle compares with the other bundles of its source; see `Grounds`."""

    resource: Ints
    helps: Bools
    may_move: Ints
    larger: Ints
    cheaper: Ints


def rank_bundles(placement: Placement, rows: Ints) -> Ranks:
    """Compare each moved bundle with the bundles that its source could have given up instead."""
    problem = placement.problem
    source = problem.owner[rows]
    excess = np.maximum(placement.used_before - placement.cap, 0)
    excess[~placement.takes_part] = 0
    helps: Bools = excess[source].any(axis=1) & ~problem.must_move[rows]
    resource = np.where(
        helps,
        _largest_part(problem.load[rows], excess[source]),
        _largest_part(problem.load[rows], problem.limit[placement.owner[rows]]),
    )
    may_move, larger, cheaper = (np.zeros(len(rows), dtype=np.int64) for _ in range(3))
    by_owner = np.argsort(problem.owner, kind="stable")
    ends = np.searchsorted(problem.owner[by_owner], np.arange(len(problem.broker_ids) + 1))
    for broker in np.unique(source[helps]).tolist():
        alternatives = by_owner[ends[broker] : ends[broker + 1]]
        alternatives = alternatives[problem.mobility[alternatives] == Mobility.FREE]
        moved = np.flatnonzero(helps & (source == broker))
        may_move[moved] = len(alternatives)
        for kind in np.unique(resource[moved]).tolist():
            mine = moved[resource[moved] == kind]
            load, own = problem.load[alternatives, kind], problem.load[rows[mine], kind]
            price = problem.sessions[alternatives] / np.maximum(load, 1)
            own_price = problem.sessions[rows[mine]] / np.maximum(own, 1)
            larger[mine] = len(load) - np.searchsorted(np.sort(load), own, side="right")
            cheaper[mine] = np.searchsorted(np.sort(price[load > 0]), own_price, side="left")
    return Ranks(resource, helps, may_move, larger, cheaper)


def _largest_part(load: Ints, whole: Ints) -> Ints:
    """For each row, the resource of which the load is the largest part; resources without a whole are ignored."""
    resource: Ints = np.argmax(np.where(whole > 0, load / np.maximum(whole, 1), -1.0), axis=1)
    return resource
