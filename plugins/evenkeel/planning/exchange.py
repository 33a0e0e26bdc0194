"""Helps hot brokers that no single move can help: a larger bundle goes where a smaller one makes room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenkeel.planning.arrays import Bools, Floats, Ints
from evenkeel.planning.placement import Placement
from evenkeel.planning.relief import find_hottest, rank_candidates, relieve

# Work budget: partners that are looked at, coolest first, and exchanges a pool may make for each of its brokers.
PARTNER_BROKERS = 64
LEAVING_BUNDLES = 256
EXCHANGES_PER_BROKER = 12
# An exchange costs two steps, so it must take off at least this part of the broker's cap.
LEAST_GAIN = 0.0005


@dataclass(frozen=True, slots=True)
class Exchange:
    """`leaving` goes from the hot broker to a partner, whose bundle `returning` goes to `returns_to`."""

    left: float
    size: float
    leaving: int
    partner: int
    returning: int
    returns_to: int


def exchange(placement: Placement) -> None:
    """Exchange bundles until no broker is hot, or no exchange helps, or the work budget is used up."""
    is_stuck = np.zeros(len(placement.used), dtype=bool)
    for _ in range(EXCHANGES_PER_BROKER * len(placement.used)):
        hottest = find_hottest(placement, is_stuck)
        if hottest is None:
            return
        best = _find_exchange(placement, hottest)
        if best is None:
            is_stuck[hottest] = True
            continue
        placement.move(best.returning, best.returns_to)
        placement.move(best.leaving, best.partner)
        relieve(placement)


def _find_exchange(placement: Placement, hot: int) -> Exchange | None:
    """The exchange that leaves the least excess on a hot broker and drives nobody above a cap."""
    leaving = rank_candidates(placement, hot)[:LEAVING_BUNDLES]
    excess_now = float((placement.excess()[hot] / placement.scale[hot]).sum())
    fullness = (placement.used / placement.scale).max(axis=1)
    fullness[~placement.receives | (placement.overload() > 0)] = np.inf
    fullness[hot] = np.inf
    partners = np.argsort(fullness, kind="stable")[:PARTNER_BROKERS]
    found = [
        _best_with_partner(placement, hot, leaving, int(partner))
        for partner in partners
        if np.isfinite(fullness[partner])
    ]
    useful = [pair for pair in found if pair is not None and pair.left < excess_now - LEAST_GAIN]
    return min(useful, key=lambda pair: (pair.left, pair.size, pair.leaving, pair.returning), default=None)


def _best_with_partner(placement: Placement, hot: int, leaving: Ints, partner: int) -> Exchange | None:
    problem = placement.problem
    leaving = leaving[problem.destinations(leaving)[:, partner]]
    returning = np.flatnonzero((placement.owner == partner) & placement.free)
    if not len(leaving) or not len(returning):
        return None
    onward, has_onward = _onward(placement, hot, partner, returning)
    can_come_back = problem.destinations(returning)[:, hot]
    out, back = problem.load[leaving], problem.load[returning]
    # What comes back to the hot broker: nothing where a third broker takes it.
    burden = np.where(has_onward[:, None], 0, back)
    room = placement.receive_cap[partner] - placement.used[partner]
    is_legal = (out[:, None, :] - back[None, :, :] <= room).all(axis=2) & (has_onward | can_come_back)
    after = placement.used[hot] - out[:, None, :] + burden[None, :, :]
    # The hot broker may not pay for one resource with another that was in order before the plan.
    highest = np.maximum(np.maximum(placement.used[hot], placement.used_before[hot]), placement.receive_cap[hot])
    is_legal &= (after <= highest).all(axis=2)
    left: Floats = (np.maximum(after - placement.cap[hot], 0) / placement.scale[hot]).sum(axis=2)
    left[~is_legal] = np.inf
    size = np.broadcast_to((out / placement.scale[hot]).max(axis=1)[:, None], left.shape)
    order = np.lexsort((size.ravel(), left.ravel()))
    row, column = divmod(int(order[0]), left.shape[1])
    if not np.isfinite(left[row, column]):
        return None
    returns_to = int(onward[column]) if has_onward[column] else hot
    return Exchange(
        float(left[row, column]),
        float(size[row, column]),
        int(leaving[row]),
        partner,
        int(returning[column]),
        returns_to,
    )


def _onward(placement: Placement, hot: int, partner: int, returning: Ints) -> tuple[Ints, Bools]:
    """For each of the partner's bundles the emptiest third broker that can take it, if there is one."""
    fits = placement.fits(returning)
    fits[:, [hot, partner]] = False
    load = placement.problem.load[returning]
    fullness = ((placement.used[None] + load[:, None]) / placement.scale[None]).max(axis=2)
    onward: Ints = np.argmin(np.where(fits, fullness, np.inf), axis=1)
    has_onward: Bools = fits.sum(axis=1) > 0
    return onward, has_onward
