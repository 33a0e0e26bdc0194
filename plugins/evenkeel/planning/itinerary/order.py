"""Find an order of the brokers whose stages need few moves.

Which broker of a pool goes first decides most: its bundles have nowhere settled to go, so all of them move twice. After
that, the broker goes next whose load fits most easily into the room of the settled brokers. Each emptied broker gives
at least as much room as its load took, so small loads first is the order that is least likely to run out of room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenkeel.model.settings import Settings
from evenkeel.planning.itinerary.bound import count_captive
from evenkeel.planning.itinerary.placement import Preference, RestartState
from evenkeel.planning.itinerary.restart_problem import RestartProblem
from evenkeel.planning.problem.columns import Floats, Ints

# With many brokers, not every one of them is tried as the first of its pool.
MOST_TRIALS = 24


@dataclass(frozen=True, slots=True)
class TriedStage:
    """The broker that was emptied, its bundles and their new owners, and the load of all brokers afterwards."""

    broker: int
    rows: Ints
    destinations: Ints
    used: Ints


@dataclass(frozen=True, slots=True)
class Trial:
    """One order as far as it went; `stuck` are the bundles of the broker `stuck_on` that found no place."""

    stages: tuple[TriedStage, ...]
    stuck_on: int | None = None
    stuck: Ints | None = None

    @property
    def moves(self) -> int:
        return sum(len(stage.rows) for stage in self.stages)


class OrderSearch:
    """Tries orders until one reaches the bound, or each broker that could do better has been the first of its pool."""

    def __init__(self, problem: RestartProblem, settings: Settings, fewest_moves: int) -> None:
        self._problem, self._settings, self._fewest_moves = problem, settings, fewest_moves
        self._fixed = {int(problem.place[row]): row for row in np.flatnonzero(problem.place > 0).tolist()}
        self._captive = count_captive(problem)
        self._waiting = np.flatnonzero(problem.is_restarted & (problem.place == 0)).tolist()
        self._fullness = _measure_pools(problem)
        # The fullest pool first, and in each pool those that cost the fewest second moves first.
        self._firsts: dict[int, list[int]] = {}
        for broker in sorted(self._waiting, key=lambda row: (*self._pool_key(row), int(self._captive[row]), row)):
            self._firsts.setdefault(int(problem.pool_of_broker[broker]), []).append(broker)
        self.trials = 0

    def find_best(self) -> Trial:
        """Try the orders by need, then the one by size, which most often succeeds where room is scarce."""
        best = self._vary_firsts(Preference.LEAST_FULL)
        if len(self._firsts) > 1 and not self._is_done(best):
            best = min(best, self._vary_firsts(Preference.LEAST_FULL, is_mixed=True), key=_rank)
        if not self._is_done(best):
            best = min(best, self._vary_firsts(Preference.LATEST), key=_rank)
        if not self._is_done(best):
            best = min(best, self._try_by_size(), key=_rank)
        return best

    def _vary_firsts(self, preference: Preference, is_mixed: bool = False) -> Trial:
        """Vary the first broker of one pool after the other, keeping what is best for the pools before."""
        chosen = {pool: firsts[0] for pool, firsts in self._firsts.items()}
        kept = self._try_by_need(chosen, preference, is_mixed)
        trials = 1
        for pool, firsts in self._firsts.items():
            for first in firsts[1:]:
                more = int(self._captive[first] - self._captive[firsts[0]])
                is_hopeless = kept.stuck is None and kept.moves <= self._fewest_moves + more
                if is_hopeless or trials >= MOST_TRIALS:
                    break
                trial = self._try_by_need({**chosen, pool: first}, preference, is_mixed)
                trials += 1
                if _rank(trial) < _rank(kept):
                    kept, chosen = trial, {**chosen, pool: first}
        return kept

    def _is_done(self, trial: Trial) -> bool:
        return trial.stuck is None and trial.moves <= self._fewest_moves

    def _try_by_need(self, firsts: dict[int, int], preference: Preference, is_mixed: bool) -> Trial:
        """Next is the broker that needs least of the settled brokers' room; if none has any, the first of a pool.

        One pool goes after the other, the fullest first, unless they are mixed.
        """

        def choose(state: RestartState, waiting: list[int]) -> int:
            pool = min(self._pool_key(broker) for broker in waiting)
            allowed = [broker for broker in waiting if is_mixed or self._pool_key(broker) == pool]
            need, broker = min((state.need(broker), broker) for broker in allowed)
            if np.isfinite(need):
                return broker
            return next((first for first in firsts.values() if first in allowed), broker)

        return self._try(choose, preference)

    def _pool_key(self, broker: int) -> tuple[float, int]:
        """The order of the pools: the fullest first.

        Bundles on brokers of other pools may only move to their own pool, and should find it settled.
        """
        pool = int(self._problem.pool_of_broker[broker])
        return (-float(self._fullness[pool]) if pool >= 0 else 0.0), pool

    def _try_by_size(self) -> Trial:
        """The largest broker goes first, so that the load of each fits on the one before it as a whole."""
        relative = self._problem.limit / np.maximum(self._problem.limit.max(axis=0, initial=1), 1)
        size = np.where(self._problem.limit > 0, relative, 1.0).min(axis=1)

        def choose(state: RestartState, waiting: list[int]) -> int:
            return min(waiting, key=lambda broker: (*self._pool_key(broker), -float(size[broker]), broker))

        return self._try(choose, Preference.LATEST)

    def _try(self, choose: Callable[[RestartState, list[int]], int], preference: Preference) -> Trial:
        self.trials += 1
        state = RestartState(self._problem, self._settings, preference)
        waiting = list(self._waiting)
        stages: list[TriedStage] = []
        for place in range(1, int(self._problem.is_restarted.sum()) + 1):
            broker = self._fixed.get(place)
            if broker is None:
                broker = choose(state, waiting)
                waiting.remove(broker)
            rows, destinations, stuck = state.empty(broker)
            if len(stuck):
                return Trial(tuple(stages), broker, stuck)
            stages.append(TriedStage(broker, rows, destinations, state.used))
        return Trial(tuple(stages))


def _measure_pools(problem: RestartProblem) -> Floats:
    """The load of each pool's bundles, wherever they are, over the limits of its brokers; the highest resource."""
    pools = len(problem.pools)
    load, limit = np.zeros((2, pools, problem.limit.shape[1]))
    np.add.at(load, problem.pool, problem.load)
    members = np.flatnonzero(problem.pool_of_broker >= 0)
    np.add.at(limit, problem.pool_of_broker[members], problem.limit[members])
    return np.asarray(np.where(limit > 0, load / np.maximum(limit, 1), 0.0).max(axis=1))


def _rank(trial: Trial) -> tuple[bool, int, int]:
    """The lowest is the best: complete, then with few moves; an incomplete one should get far."""
    if trial.stuck is None:
        return False, trial.moves, 0
    return True, -len(trial.stages), len(trial.stuck)
