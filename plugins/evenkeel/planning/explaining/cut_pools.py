"""Corrects what a pool says about itself where the whole plan left out some of its moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.model.load import RESOURCES
from evenkeel.planning.explaining.words import count
from evenkeel.planning.pool_plan import Move, PoolPlan

DIGITS = 6


def amend_summary(plan: PoolPlan, kept: Sequence[Move]) -> Mapping[str, Any]:
    """What has to be said instead: nothing where every move is kept, or where the pool did not say how it ends."""
    left_out = len(plan.moves) - len(kept)
    if not left_out or "reaches_band" not in plan.summary:
        return {}
    used = [list(broker.used) for broker in plan.brokers]
    for move in kept:
        for resource, load in enumerate(move.load):
            used[move.source][resource] -= load
            used[move.destination][resource] += load
    peaks = [0.0] * len(RESOURCES)
    reaches_band = True
    for broker, carries in zip(plan.brokers, used, strict=True):
        for resource, limit in enumerate(broker.limit):
            if broker.is_member and limit:
                peaks[resource] = max(peaks[resource], carries[resource] / limit)
                reaches_band = reaches_band and carries[resource] <= broker.band_limit[resource]
    amended = {
        "peak_after": {str(name): round(peak, DIGITS) for name, peak in zip(RESOURCES, peaks, strict=True)},
        "reaches_band": reaches_band,
    }
    if reaches_band or plan.summary["limited_by"] == "budget":
        return amended
    moves = count(left_out, "move")
    advice = (
        f"wider budgets: they, or the order of the steps, leave out {moves} of the {len(plan.moves):,} of this pool"
    )
    return amended | {"limited_by": "budget", "advice": [advice]}
