"""Pulsar's own strategies as deciders: what each would leave where, whatever the order of the rows that it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.peers.counterfactual import STRATEGIES as PEERS
from evenkeel.planning.peers.counterfactual import THRESHOLD_SHEDDER, TRANSFER_SHEDDER, Counterfactual, simulate

__all__ = ["MOST_CYCLES", "PEERS", "PEER_NAMES", "PeerDecision", "decide", "decision_of", "play"]

# TransferShedder relieves three brokers a cycle and may need hours; ThresholdShedder relieves all hot ones at once.
# A strategy that has not come to rest by then shuffles for ever.
MOST_CYCLES = {TRANSFER_SHEDDER: 480, THRESHOLD_SHEDDER: 120}
PEER_NAMES = {TRANSFER_SHEDDER: "TransferShedder", THRESHOLD_SHEDDER: "ThresholdShedder"}


@dataclass(frozen=True, slots=True)
class PeerDecision:
    """Where a strategy leaves the bundles that it moves, by bundle and broker id, and why it then rests."""

    strategy: str
    destinations: Mapping[str, str]
    stopped_because: str

    @property
    def name(self) -> str:
        """The strategy as Pulsar calls it."""
        return PEER_NAMES[self.strategy]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def play(
    strategy: str, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> Counterfactual:
    """Play a strategy through; its rows are those of `bundles` and `brokers`, which have to be in order of name."""
    return simulate(strategy, brokers, bundles, policies, settings, MOST_CYCLES[strategy])


def decision_of(played: Counterfactual, brokers: Sequence[Broker], bundles: BundleColumns) -> PeerDecision:
    """What a strategy that was played through did in the end, by name."""
    destinations = {str(bundles.bundle[row]): brokers[broker].broker_id for row, broker in played.moves}
    return PeerDecision(played.strategy, destinations, played.stopped_because)


def decide(
    strategy: str, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> PeerDecision:
    """What a strategy would do in the end; a bundle that it moves several times is moved once, from first to last."""
    in_order, rows = sorted(brokers, key=lambda broker: broker.broker_id), bundles.sorted_by_name()
    return decision_of(play(strategy, in_order, rows, policies, settings), in_order, rows)
