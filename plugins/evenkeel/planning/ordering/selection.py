"""Chooses which moves and splits of all pools fit the budgets, and orders them totally into waves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evenkeel.model.settings import Settings
from evenkeel.planning.ordering.budgets import admit
from evenkeel.planning.ordering.cluster_brokers import ClusterBroker, PooledMove
from evenkeel.planning.ordering.harm import Dropped, drop_harmful
from evenkeel.planning.ordering.occupancy import Occupancy
from evenkeel.planning.ordering.urgency import order_by_urgency
from evenkeel.planning.ordering.waves import cut_waves
from evenkeel.planning.splitting.split_order import PooledSplit, SplitSelection, drop_orphans, select_splits

WAVE_ORDER = "wave-order"


@dataclass(frozen=True, slots=True)
class Selection:
    """Moves wave by wave, and those that were dropped, with the rule that dropped them; all splits come before."""

    waves: tuple[tuple[PooledMove, ...], ...]
    dropped: tuple[Dropped, ...]
    splits: SplitSelection = field(default_factory=SplitSelection)

    @property
    def moves(self) -> list[PooledMove]:
        """The chosen moves in their total order."""
        return [move for wave in self.waves for move in wave]


def select(
    moves: Sequence[PooledMove],
    brokers: Mapping[str, ClusterBroker],
    groups: Mapping[tuple[str, str], int],
    settings: Settings,
    splits: Sequence[PooledSplit] = (),
) -> Selection:
    """Keep the most urgent moves within the budgets, drop what the cut made harmful, and cut waves.

    `groups` counts the bundles of anti-affinity groups by group and broker id. `splits` are in order of urgency.
    """
    whole, orphans = drop_orphans(moves, splits, settings)
    kept, dropped = admit(order_by_urgency(whole, brokers), settings)
    dropped += orphans
    # Behind splits the first moves are careful too, but their wave is one like any other.
    pace = replace(settings, canary_steps=min(settings.canary_steps, settings.wave_steps)) if splits else settings
    while True:
        kept, harmful = drop_harmful(kept, dropped, brokers)
        dropped += harmful
        cut = cut_waves(kept, Occupancy(brokers, groups, settings), pace)
        if not cut.impossible:
            waves = tuple(tuple(kept[place] for place in wave) for wave in cut.waves)
            return Selection(waves, tuple(dropped), select_splits(splits, kept, settings))
        dropped += [(kept[place], WAVE_ORDER) for place in cut.impossible]
        impossible = frozenset(cut.impossible)
        kept = [move for place, move in enumerate(kept) if place not in impossible]
