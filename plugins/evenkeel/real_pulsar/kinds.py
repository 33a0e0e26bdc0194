"""The kinds of cluster that real brokers can form, and the settings that make them so."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.adapters.cluster_kind import EXTENSIBLE_CLASS, MODULAR_CLASS, VIEWS
from evenkeel.model.snapshot import LoadManager


def load_manager_settings(kind: LoadManager) -> Mapping[str, str]:
    """The lines of broker.conf that choose a kind."""
    if kind is LoadManager.MODULAR:
        return {"loadManagerClassName": MODULAR_CLASS}
    view_class = next(name for name, found in VIEWS.items() if found is kind)
    return {
        "loadManagerClassName": EXTENSIBLE_CLASS,
        "loadManagerServiceUnitStateTableViewClassName": view_class,
    }
