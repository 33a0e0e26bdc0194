"""What audits have learnt about the cost of moves, as settings of the next plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from evenkeel.adapters.lake.learnt import HandOverStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings

SETTING_OF_KIND = {str(StepKind.TRANSFER): "transfer_hand_over_ms", str(StepKind.UNLOAD): "unload_hand_over_ms"}
"""Which setting holds the hand-over time of a kind of step."""


def with_learnt_hand_overs(lake: Lake, cluster: str, settings: Settings, moment: datetime) -> Settings:
    """The settings with the hand-over times that were known at a moment; values other than the defaults stay."""
    store = HandOverStore(lake)
    known = store.find(cluster, moment) if settings.use_learnt_costs else None
    if known is None:
        return settings
    learnt: dict[str, Any] = {
        SETTING_OF_KIND[row.kind]: row.hand_over_ms
        for row in store.load(cluster, known)
        if row.kind in SETTING_OF_KIND and not _is_chosen(settings, SETTING_OF_KIND[row.kind])
    }
    return replace(settings, **learnt)


def _is_chosen(settings: Settings, name: str) -> bool:
    return bool(getattr(settings, name) != getattr(_DEFAULTS, name))


_DEFAULTS = Settings()
