"""The counterfactual of a plan: what Pulsar's own strategies would have done with the same load."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenkeel.model.figures import StrategyReplay
from evenkeel.model.load import MILLI
from evenkeel.model.plan import StepKind
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.cluster.figures import DIGITS
from evenkeel.planning.problem.band import PPB, find_band, reference_peaks
from evenkeel.planning.problem.columns import BundleColumns, Floats, Ints
from evenkeel.planning.problem.disruption import pricing_of, step_prices
from evenkeel.planning.problem.problem import Mobility, limits_of, pool_problems
from evenkeel.planning.pulsar_strategies.counterfactual import (
    STRATEGIES,
    TRANSFER_SHEDDER,
    Counterfactual,
    StrategyDecision,
    decision_of,
    play,
)
from evenkeel.planning.pulsar_strategies.strategy_plan import carry_out
from evenkeel.planning.search.placement import Placement


def describe_counterfactuals(
    brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> tuple[StrategyReplay, ...]:
    """Replay each of Pulsar's strategies on the owned bundles of a cluster."""
    if len(bundles) > settings.counterfactual_max_bundles:
        return leave_out_counterfactuals(len(bundles), settings)
    return _Comparison(brokers, bundles, policies, settings).replays()


def leave_out_counterfactuals(bundle_count: int, settings: Settings) -> tuple[StrategyReplay, ...]:
    """The same without figures, for a cluster that is too large to replay the strategies on."""
    why = (
        f"the comparison is left out: {bundle_count:,} bundles are more than {settings.counterfactual_max_bundles:,} "
        "(setting counterfactual_max_bundles)"
    )
    return tuple(StrategyReplay(strategy, why) for strategy in STRATEGIES)


class _Comparison:
    """A cluster with its bundles sorted by name, and its distance from the lowest peaks of its pools."""

    def __init__(
        self, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
    ) -> None:
        self._brokers = sorted(brokers, key=lambda broker: broker.broker_id)
        self._bundles = bundles.sorted_by_name()
        self._policies, self._settings = policies, settings
        # First, because it refuses owners that are not brokers.
        problems = list(pool_problems(self._brokers, self._bundles, policies, settings))
        self._pools = [(problem, find_band(problem, settings)) for problem in problems]
        self._index = {broker.broker_id: row for row, broker in enumerate(self._brokers)}
        self._owner: Ints = np.array([self._index[owner] for owner in self._bundles.owner.tolist()], dtype=np.int64)
        self._loads = self._bundles.loads()
        self._at_lowest_peak = self._find_lowest_peaks()

    def replays(self) -> tuple[StrategyReplay, ...]:
        cluster = (self._brokers, self._bundles, self._policies, self._settings)
        return tuple(self._describe(play(strategy, *cluster)) for strategy in STRATEGIES)

    def _describe(self, played: Counterfactual) -> StrategyReplay:
        moved = np.array([row for row, _ in played.moves], dtype=np.int64)
        after = self._owner.copy()
        after[moved] = [broker for _, broker in played.moves]
        rows, times = np.array(played.times_moved, dtype=np.int64).reshape(-1, 2).T
        return StrategyReplay(
            strategy=played.strategy,
            cycles=played.cycles,
            unloads=played.unloads,
            repeat_unloads=played.repeat_unloads,
            moves=len(played.moves),
            worst_before=self._worst(self._owner),
            worst_after=self._worst(after),
            moved_sessions=int((self._bundles.sessions[rows] * times).sum()),
            client_seconds=self._client_seconds(played.strategy, rows, times),
            illegal=self._count_illegal(decision_of(played, self._brokers, self._bundles)),
            stopped_because=played.stopped_because,
            explanation=tuple(played.explanation),
        )

    def _find_lowest_peaks(self) -> Floats:
        """The load of each broker at the lowest peak of its pool; infinite where there is none."""
        limit = limits_of(self._brokers, self._settings)
        loads: Floats = np.full(limit.shape, np.inf)
        for problem, band in self._pools:
            members = [self._index[problem.broker_ids[row]] for row in np.flatnonzero(problem.is_member)]
            at_peak = limit[members] * (reference_peaks(np.array(band.peak_ppb), self._settings) / PPB)
            loads[members] = np.where(at_peak > 0, at_peak, np.inf)
        return loads

    def _worst(self, owner: Ints) -> float:
        """The highest utilisation over the lowest peak of its pool."""
        used = np.zeros(self._at_lowest_peak.shape, dtype=np.int64)
        np.add.at(used, owner, self._loads)
        return round(float((used / self._at_lowest_peak).max(initial=0.0)), DIGITS)

    def _client_seconds(self, strategy: str, rows: Ints, times: Ints) -> float:
        is_transfer = strategy == TRANSFER_SHEDDER and self._settings.transfer_enabled
        kind = StepKind.TRANSFER if is_transfer else StepKind.UNLOAD
        sessions, throughput_out = self._bundles.sessions[rows], self._bundles.throughput_out[rows]
        # Priced like our own steps, so that the two compare.
        pricing = pricing_of(self._brokers[0].load_manager if self._brokers else "", self._settings)
        prices = step_prices(kind, sessions, throughput_out, pricing) * times
        return round(int(prices.sum()) / MILLI, 3)

    def _count_illegal(self, decision: StrategyDecision) -> int:
        """The moves that break a hard rule; moving a group that spans pools breaks none, we only avoid it."""
        count = 0
        for problem, band in self._pools:
            illegal = list(carry_out(Placement(problem, band, self._settings), decision))
            count += int((problem.mobility[illegal] != Mobility.GROUP_SPANS_POOLS).sum())
        return count
