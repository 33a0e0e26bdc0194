"""Finds the brokers that carry more than they should, and the bundles that could leave them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenkeel.planning.arrays import Ints
from evenkeel.planning.problem import PoolProblem


@dataclass(frozen=True, slots=True)
class HotBroker:
    """A broker above a cap: its own bundles that need not leave anyway, and how much has to leave of each resource."""

    broker: int
    bundles: Ints
    excess: Ints


def find_hot_brokers(problem: PoolProblem, cap: Ints) -> list[HotBroker]:
    """The members that stay above their cap even when everything has left that has to leave."""
    stays = ~problem.must_move
    used = np.zeros_like(problem.limit)
    np.add.at(used, problem.owner[stays], problem.load[stays])
    above = np.maximum(used - cap, 0)
    above[~problem.is_member | problem.must_be_emptied] = 0
    groups = rows_by_owner(problem.owner, len(problem.broker_ids))
    return [
        HotBroker(broker, mine[stays[mine]], above[broker])
        for broker in np.flatnonzero(above.any(axis=1)).tolist()
        if len(mine := groups[broker])
    ]


def rows_by_owner(owner: Ints, brokers: int) -> list[Ints]:
    """For each broker the rows of its bundles, in their order."""
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(brokers + 1))
    return [order[ends[broker] : ends[broker + 1]] for broker in range(brokers)]
