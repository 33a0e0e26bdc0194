"""The counterfactual of a plan: what Pulsar's own strategies would have done with the same load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenkeel.model.plan import StepKind
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.arrays import Floats, Ints
from evenkeel.planning.balance import DIGITS
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.disruption import pricing_of, step_prices
from evenkeel.planning.floors import PPB, find_band
from evenkeel.planning.in_process import pool_problems
from evenkeel.planning.peers.counterfactual import TRANSFER_SHEDDER, Counterfactual
from evenkeel.planning.peers.decision import PEERS, PeerDecision, decision_of, play
from evenkeel.planning.peers.peer_plan import carry_out
from evenkeel.planning.problem import Mobility, limits_of
from evenkeel.planning.search.placement import Placement

MILLIS_PER_SECOND = 1000
_FIGURES = (
    "cycles",
    "unloads",
    "repeat_unloads",
    "moves",
    "worst_before",
    "worst_after",
    "moved_sessions",
    "client_seconds",
    "illegal",
)


def describe_counterfactuals(
    brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> list[dict[str, Any]]:
    """One row a strategy, of owned bundles; `worst` is the highest utilisation over the lowest peak of its pool."""
    if len(bundles) > settings.counterfactual_max_bundles:
        return leave_out_counterfactuals(len(bundles), settings)
    return _Comparison(brokers, bundles, policies, settings).rows()


def leave_out_counterfactuals(bundle_count: int, settings: Settings) -> list[dict[str, Any]]:
    """The same rows without figures, for a cluster that is too large to play the strategies through."""
    why = (
        f"the comparison is left out: {bundle_count:,} bundles are more than {settings.counterfactual_max_bundles:,} "
        "(setting counterfactual_max_bundles)"
    )
    nothing = dict.fromkeys(_FIGURES)
    return [{"strategy": peer, **nothing, "stopped_because": why, "explanation": []} for peer in PEERS]


class _Comparison:
    """A cluster with its bundles in order of name, and how far it is from the lowest peaks of its pools."""

    def __init__(
        self, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
    ) -> None:
        self._brokers = sorted(brokers, key=lambda broker: broker.broker_id)
        self._bundles = bundles.sorted_by_name()
        self._policies, self._settings = policies, settings
        # First, because it refuses owners that are no brokers.
        problems = list(pool_problems(self._brokers, self._bundles, policies, settings))
        self._pools = [(problem, find_band(problem, settings)) for problem in problems]
        self._index = {broker.broker_id: row for row, broker in enumerate(self._brokers)}
        self._owner: Ints = np.array([self._index[owner] for owner in self._bundles.owner.tolist()], dtype=np.int64)
        self._loads = self._bundles.loads()
        self._floor = self._floors()

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(play(p, self._brokers, self._bundles, self._policies, self._settings)) for p in PEERS]

    def _row(self, played: Counterfactual) -> dict[str, Any]:
        moved = np.array([row for row, _ in played.moves], dtype=np.int64)
        after = self._owner.copy()
        after[moved] = [broker for _, broker in played.moves]
        rows, times = np.array(played.times_moved, dtype=np.int64).reshape(-1, 2).T
        return {
            "strategy": played.strategy,
            "cycles": played.cycles,
            "unloads": played.unloads,
            "repeat_unloads": played.repeat_unloads,
            "moves": len(played.moves),
            "worst_before": self._worst(self._owner),
            "worst_after": self._worst(after),
            "moved_sessions": int((self._bundles.sessions[rows] * times).sum()),
            "client_seconds": self._client_seconds(played.strategy, rows, times),
            "illegal": self._count_illegal(decision_of(played, self._brokers, self._bundles)),
            "stopped_because": played.stopped_because,
            "explanation": list(played.explanation),
        }

    def _floors(self) -> Floats:
        """What each broker would carry of each resource at the lowest peak of its pool; endless where there is none."""
        limit = limits_of(self._brokers, self._settings)
        floor: Floats = np.full(limit.shape, np.inf)
        for problem, band in self._pools:
            members = [self._index[problem.broker_ids[row]] for row in np.flatnonzero(problem.is_member)]
            at_peak = limit[members] * (np.array(band.peak_ppb) / PPB)
            floor[members] = np.where(at_peak > 0, at_peak, np.inf)
        return floor

    def _worst(self, owner: Ints) -> float:
        used = np.zeros(self._floor.shape, dtype=np.int64)
        np.add.at(used, owner, self._loads)
        return round(float((used / self._floor).max(initial=0.0)), DIGITS)

    def _client_seconds(self, strategy: str, rows: Ints, times: Ints) -> float:
        is_transfer = strategy == TRANSFER_SHEDDER and self._settings.transfer_enabled
        kind = StepKind.TRANSFER if is_transfer else StepKind.UNLOAD
        sessions, throughput_out = self._bundles.sessions[rows], self._bundles.throughput_out[rows]
        # As our own steps are priced, or the two would not compare.
        pricing = pricing_of(self._brokers[0].load_manager if self._brokers else "", self._settings)
        prices = step_prices(kind, sessions, throughput_out, pricing) * times
        return round(int(prices.sum()) / MILLIS_PER_SECOND, 3)

    def _count_illegal(self, decision: PeerDecision) -> int:
        """The moves that break a hard rule; that we leave groups that span pools alone is only our own caution."""
        count = 0
        for problem, band in self._pools:
            illegal = list(carry_out(Placement(problem, band, self._settings), decision))
            count += int((problem.mobility[illegal] != Mobility.GROUP_SPANS_POOLS).sum())
        return count
