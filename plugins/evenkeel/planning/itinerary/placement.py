"""Empty one broker after the other: who owns what after each stage, and where the bundles of the next broker can go."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from evenkeel.model.settings import Settings
from evenkeel.planning.itinerary.restart_problem import RestartProblem
from evenkeel.planning.problem.anti_affinity import NO_GROUP
from evenkeel.planning.problem.band import overload_caps
from evenkeel.planning.problem.columns import Bools, Floats, Ints

NOWHERE = -1


class Preference(StrEnum):
    """Which of the brokers with room gets a bundle.

    `LEAST_FULL` keeps the load even. `LATEST` prefers the broker that was restarted last: what one broker held then
    moves to the next as a whole, which always fits if that one is as large.
    """

    LEAST_FULL = "least-full"
    LATEST = "latest"


class RestartState:
    """Owners, loads, topics and groups after the stages so far.

    A broker is *settled* if it need not be emptied any more: it has been restarted or is not going to be. A bundle that
    moves to a settled broker stays there. One that moves elsewhere has to move once more, to a settled broker.
    """

    def __init__(self, problem: RestartProblem, settings: Settings, preference: Preference) -> None:
        self._problem, self._preference = problem, preference
        self._line = overload_caps(problem.limit, settings)
        self._topic_limit = settings.broker_max_topics
        with np.errstate(divide="ignore"):
            self._per_limit: Floats = np.where(problem.limit > 0, 1 / problem.limit, 0.0)
        self._size: Floats = (problem.load * self._per_limit.max(axis=0, initial=0.0)).max(axis=1, initial=0.0)
        self.owner = problem.owner.copy()
        self.is_settled: Bools = ~problem.is_restarted
        self._restarted_as = np.zeros(len(problem.broker_ids), dtype=np.int64)
        self._moved = np.zeros(len(problem.bundles), dtype=np.int64)
        self._used = problem.used(problem.owner)
        self._topics = np.zeros(len(problem.broker_ids), dtype=np.int64)
        np.add.at(self._topics, problem.owner, problem.topics)
        self._on_broker, self._in_domain = _count_groups(problem)
        self._broker_peaks = self._on_broker.max(axis=1, initial=0)
        self._domain_peaks = self._in_domain.max(axis=1, initial=0)

    @property
    def used(self) -> Ints:
        return self._used.copy()

    def rows_on(self, broker: int) -> Ints:
        """The bundles that have to leave a broker, the largest first."""
        rows = np.flatnonzero((self.owner == broker) & ~self._problem.is_system)
        return rows[np.argsort(-self._size[rows], kind="stable")]

    def need(self, broker: int) -> float:
        """The load of a broker over the free room of the settled brokers that its bundles may go to.

        0 means that it is empty, infinity that there is no room at all.
        """
        rows = self.rows_on(broker)
        if not len(rows):
            return 0.0
        problem = self._problem
        targets = problem.receivers[np.unique(problem.bundle_class[rows])].any(axis=0) & self.is_settled
        free = np.where(problem.limit > 0, self._line - self._used, np.inf)[targets].clip(min=0).sum(axis=0)
        load = problem.load[rows].sum(axis=0)
        if not targets.any():
            return float("inf")
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nan_to_num(load / free, nan=0.0, posinf=np.inf).max())

    def empty(self, broker: int) -> tuple[Ints, Ints, Ints]:
        """Move everything off a broker and restart it.

        Returns the rows that moved, their destinations and the rows that found no place; if there are such rows, the
        state is of no more use.
        """
        rows = self.rows_on(broker)
        bound, free = rows[self._moved[rows] > 0], rows[self._moved[rows] == 0]
        staying = self.is_settled.copy()
        staying[broker] = False
        where = dict.fromkeys(rows.tolist(), NOWHERE)
        stuck = self._place_all(bound, broker, staying, where)
        left = self._place_as_many(free, broker, staying, where)
        elsewhere = ~self.is_settled
        elsewhere[broker] = False
        stuck += self._place_all(np.array(left, dtype=np.int64), broker, elsewhere, where)
        self._moved[rows] += 1
        self.is_settled[broker] = True
        self._restarted_as[broker] = self._restarted_as.max() + 1
        return rows, np.array(list(where.values()), dtype=np.int64), np.array(stuck, dtype=np.int64)

    def _place_as_many(self, rows: Ints, broker: int, targets: Bools, where: dict[int, int]) -> list[int]:
        """Place as many of these as possible: the largest first if all find room, else whichever order leaves fewer."""
        left = self._place_all(rows, broker, targets, where)
        if not left:
            return left
        placed = {row: where[row] for row in rows.tolist() if where[row] != NOWHERE}
        self._take_back(placed, broker, where)
        fewer = self._place_all(rows[::-1], broker, targets, where)
        if len(fewer) < len(left):
            return fewer[::-1]
        self._take_back({row: where[row] for row in rows.tolist() if where[row] != NOWHERE}, broker, where)
        for row, destination in placed.items():
            self._move(row, broker, destination)
            where[row] = destination
        return left

    def _take_back(self, placed: dict[int, int], broker: int, where: dict[int, int]) -> None:
        for row, destination in placed.items():
            self._move(row, destination, broker)
            where[row] = NOWHERE

    def _place_all(self, rows: Ints, broker: int, targets: Bools, where: dict[int, int]) -> list[int]:
        """Place these one by one on brokers of `targets`; returns those without a place."""
        left = []
        for row in rows.tolist():
            destination = self._choose(row, broker, targets)
            if destination == NOWHERE:
                left.append(row)
            else:
                self._move(row, broker, destination)
                where[row] = destination
        return left

    def _choose(self, row: int, source: int, targets: Bools) -> int:
        open_to = targets & self._problem.receivers[self._problem.bundle_class[row]] & self.has_room(row, source)
        candidates = np.flatnonzero(open_to)
        if not len(candidates):
            return NOWHERE
        if self._preference is Preference.LATEST and self._restarted_as[candidates].any():
            return int(candidates[np.argmax(self._restarted_as[candidates])])
        load = self._used[candidates] + self._problem.load[row]
        return int(candidates[np.argmin((load * self._per_limit[candidates]).max(axis=1))])

    def has_room(self, row: int, source: int) -> Bools:
        """For each broker, whether it can take a bundle: overload line, topic limit, peaks of its group."""
        problem = self._problem
        room: Bools = (self._used + problem.load[row] <= self._line).all(axis=1)
        room &= self._topics + problem.topics[row] < self._topic_limit
        group = int(problem.group[row])
        if group != NO_GROUP:
            room &= self._on_broker[group] < self._broker_peaks[group]
            keeps_domain_peak = (self._in_domain[group] < self._domain_peaks[group])[problem.domain]
            room &= keeps_domain_peak | (problem.domain == problem.domain[source])
        return room

    def _move(self, row: int, source: int, destination: int) -> None:
        problem = self._problem
        self.owner[row] = destination
        group = int(problem.group[row])
        for broker, sign in ((source, -1), (destination, 1)):
            self._used[broker] += sign * problem.load[row]
            self._topics[broker] += sign * problem.topics[row]
            if group != NO_GROUP:
                self._on_broker[group, broker] += sign
                self._in_domain[group, problem.domain[broker]] += sign


def _count_groups(problem: RestartProblem) -> tuple[Ints, Ints]:
    """The bundles of each anti-affinity group, per broker and per failure domain."""
    groups = int(problem.group.max(initial=NO_GROUP)) + 1
    on_broker = np.zeros((groups, len(problem.broker_ids)), dtype=np.int64)
    in_domain = np.zeros((groups, int(problem.domain.max(initial=0)) + 1), dtype=np.int64)
    grouped = np.flatnonzero(problem.group != NO_GROUP)
    np.add.at(on_broker, (problem.group[grouped], problem.owner[grouped]), 1)
    np.add.at(in_domain, (problem.group[grouped], problem.domain[problem.owner[grouped]]), 1)
    return on_broker, in_domain
