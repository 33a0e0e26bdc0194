"""Chooses which bundles of a pool are split: PIP-192's candidates, and bundles that are too big for any broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.model.bundles import BundleName
from evenkeel.model.load import MILLI, SplitCandidate
from evenkeel.model.plan import Rejection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import BrokerState
from evenkeel.planning.anti_affinity import NO_GROUP
from evenkeel.planning.arrays import Ints
from evenkeel.planning.explaining.words import percent, resource_name
from evenkeel.planning.floors import Band
from evenkeel.planning.problem import Mobility, PoolProblem
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.splitting.boundaries import PPB
from evenkeel.planning.splitting.splits import PlannedSplit

TOO_BIG = "TooBig"
FEWEST_TOPICS = 2
SPLIT_CANDIDATE = "split-candidate"


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """The splits of a pool in their order, and the candidates that are left whole, with the rule that says so."""

    splits: tuple[PlannedSplit, ...] = ()
    rejections: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why a bundle should be split; larger needs come first among equals of rank."""

    candidate: SplitCandidate
    row: int
    need: float
    words: str


def choose_splits(
    problem: PoolProblem, band: Band, candidates: Sequence[SplitCandidate], settings: Settings
) -> SplitChoice:
    """Choose within the caps per namespace and per cycle: candidates by rank, then what is too big, largest first.

    The cap per cycle holds for each pool here, and for all pools together when their plans are put together.
    """
    cap = Placement(problem, band, settings).cap
    reasons, rejections = _sort_out(problem, band, cap, candidates)
    chosen: list[PlannedSplit] = []
    in_namespace: Counter[str] = Counter()
    for reason in sorted(reasons, key=_urgency):
        candidate = reason.candidate
        obstacle = _find_cap(candidate, len(chosen), in_namespace[candidate.namespace], settings)
        if obstacle is None:
            chosen.append(PlannedSplit(candidate, reason.words))
            in_namespace[candidate.namespace] += 1
        else:
            rejections.append(_rejection(problem, reason, obstacle))
    return SplitChoice(tuple(chosen), tuple(rejections))


def _sort_out(
    problem: PoolProblem, band: Band, cap: Ints, candidates: Sequence[SplitCandidate]
) -> tuple[list[_Reason], list[Rejection]]:
    """The bundles of this pool that should be split and may be, and those that should and may not."""
    reasons, rejections = [], []
    for candidate in candidates:
        row = _row_of(problem, candidate.bundle)
        reason = None if row is None else _find_reason(problem, band, cap, candidate, row)
        if reason is None:
            continue
        obstacle = _find_obstacle(problem, candidate, reason.row)
        if obstacle is None:
            reasons.append(reason)
        else:
            rejections.append(_rejection(problem, reason, obstacle))
    return reasons, rejections


def _urgency(reason: _Reason) -> tuple[bool, int, float, str]:
    candidate = reason.candidate
    return candidate.reason == TOO_BIG, candidate.rank, -reason.need, candidate.bundle


def _row_of(problem: PoolProblem, bundle: str) -> int | None:
    row = int(np.searchsorted(problem.bundles, bundle))
    return row if row < len(problem.bundles) and problem.bundles[row] == bundle else None


def _find_reason(problem: PoolProblem, band: Band, cap: Ints, candidate: SplitCandidate, row: int) -> _Reason | None:
    cut = f"cut at {candidate.boundary:#010x} by {candidate.boundary_by}"
    if candidate.reason != TOO_BIG:
        words = (
            f"met the condition {candidate.reason} of PIP-192 in {candidate.hits} snapshots in a row "
            f"({candidate.topics} topics, {candidate.sessions} sessions, "
            f"{round(candidate.msg_rate_per_s * MILLI) / MILLI} messages/s, "
            f"{round(candidate.throughput_bytes_per_s)} bytes/s); {cut}"
        )
        return _Reason(candidate, row, 0.0, words)
    hosts = np.flatnonzero(problem.destinations(np.array([row]))[0] & (problem.limit > 0).any(axis=1))
    if not len(hosts):
        return None
    # How often the bundle would fill each broker's cap; the broker that suits it best speaks for all.
    fillings = problem.load[row] / np.maximum(cap[hosts], 1)
    best = int(np.argmin(fillings.max(axis=1)))
    resource = int(np.argmax(fillings[best]))
    need = float(fillings[best, resource])
    if need <= 1 or not _divides(candidate, resource):
        return None
    host = int(hosts[best])
    limit, most = int(problem.limit[host, resource]), int(cap[host, resource])
    end = "the band ends" if most == band.cap[host, resource] else "the overload line is"
    words = (
        f"too big for any broker that may own it: it takes {percent(int(problem.load[row, resource]), limit)} of the "
        f"{resource_name(resource)} of {problem.broker_ids[host]}, where {end} at {percent(most, limit)}; {cut}"
    )
    return _Reason(candidate, row, need, words)


def _divides(candidate: SplitCandidate, resource: int) -> bool:
    """Whether the cut takes something of this resource off the larger child."""
    # In the order of RESOURCES; cpu follows the messages.
    parts = (candidate.lower_msg_rate_ppb, candidate.lower_throughput_in_ppb, candidate.lower_throughput_out_ppb)
    return 0 < parts[resource] < PPB


def _find_obstacle(problem: PoolProblem, candidate: SplitCandidate, row: int) -> str | None:
    """Say which rule forbids the split; None where none does."""
    part, owner = BundleName.parse(candidate.bundle).range, int(problem.owner[row])
    if problem.topics[row] < FEWEST_TOPICS:
        return "it has fewer than two topics"
    if not part.lower < candidate.boundary < part.upper:
        return "its range cannot be cut"
    if problem.mobility[row] != Mobility.FREE:
        return f"it may not be touched ({Mobility(int(problem.mobility[row])).name.lower().replace('_', ' ')})"
    # Two children count twice: the group would be more crowded than before.
    if problem.group[row] != NO_GROUP:
        return "its namespace is in an anti-affinity group"
    # The owner carries a split out itself, and a broker that is being emptied gets no new bundles.
    if problem.states[owner] != BrokerState.ACTIVE:
        return f"its owner {problem.broker_ids[owner]} is {problem.states[owner]}"
    if problem.is_stranded[row] and candidate.reason != TOO_BIG:
        return "it has to leave its owner first, and goes whole"
    return None


def _find_cap(candidate: SplitCandidate, chosen: int, in_namespace: int, settings: Settings) -> str | None:
    most, most_bundles = settings.max_number_of_bundles_to_split_per_cycle, settings.namespace_maximum_bundles
    if chosen >= most:
        return f"a plan has room for {most} splits (max_number_of_bundles_to_split_per_cycle)"
    if candidate.namespace_bundles + in_namespace >= most_bundles:
        return f"its namespace has room for {most_bundles} bundles (namespace_maximum_bundles)"
    return None


def _rejection(problem: PoolProblem, reason: _Reason, obstacle: str) -> Rejection:
    owner = problem.broker_ids[int(problem.owner[reason.row])]
    detail = f"not split, because {obstacle}; {reason.words}"
    return Rejection(problem.pool, "bundle", reason.candidate.bundle, owner, SPLIT_CANDIDATE, detail)
