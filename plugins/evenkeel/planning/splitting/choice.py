"""Choose which bundles of a pool are split: PIP-192's candidates, and bundles that are too big for any broker.

Only the pool's planner knows its band, and so which bundles are too big. Bundles that might be are collected before
that, each with its cut, by sums alone; the planner splits those that exceed its band. They are few: such a bundle
carries half the fair share of the pool's weakest broker, so a broker of a homogeneous pool holds at most two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from evenkeel.model.bundles import BundleName
from evenkeel.model.load import MILLI, RESOURCES, SplitCandidate
from evenkeel.model.plan import Rejection
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.explaining.words import limit_name, percent
from evenkeel.planning.problem.anti_affinity import NO_GROUP
from evenkeel.planning.problem.band import Band
from evenkeel.planning.problem.columns import BundleColumns, Ints
from evenkeel.planning.problem.pools import PoolAssignment, assign_pools, live_broker_ids
from evenkeel.planning.problem.problem import Mobility, PoolProblem, limits_of, number
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.splitting.cuts import NO_TOPICS, PPB, Cut, PlannedSplit, find_cut

TOO_BIG = "TooBig"
FEWEST_TOPICS = 2
SPLIT_CANDIDATE = "split-candidate"
# The band ignores load on brokers that take no part in balancing; even so it is seldom below this part of a fair share.
PART_OF_FAIR_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """The splits of a pool in order, and the candidates that are not split, with the rule that forbids it."""

    splits: tuple[PlannedSplit, ...] = ()
    rejections: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why a bundle should be split; among equal ranks, the larger need comes first."""

    candidate: SplitCandidate
    row: int
    need: float
    words: str


def choose_splits(
    problem: PoolProblem, band: Band, candidates: Sequence[SplitCandidate], settings: Settings
) -> SplitChoice:
    """Choose splits within the limits per namespace and cycle: candidates by rank, then oversized bundles by size.

    The limit per cycle applies to each pool here, and to all pools together when their plans are assembled.
    """
    cap = Placement(problem, band, settings).cap
    reasons, rejections = _separate(problem, band, cap, candidates)
    chosen: list[PlannedSplit] = []
    in_namespace: Counter[str] = Counter()
    for reason in sorted(reasons, key=_urgency):
        candidate = reason.candidate
        obstacle = _find_limit(candidate, len(chosen), in_namespace[candidate.namespace], settings)
        if obstacle is None:
            chosen.append(PlannedSplit(candidate, reason.words))
            in_namespace[candidate.namespace] += 1
        else:
            rejections.append(_rejection(problem, reason, obstacle))
    return SplitChoice(tuple(chosen), tuple(rejections))


def _separate(
    problem: PoolProblem, band: Band, cap: Ints, candidates: Sequence[SplitCandidate]
) -> tuple[list[_Reason], list[Rejection]]:
    """Separate the bundles of this pool that should be split into those that may be and those that may not."""
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
    # How many times the bundle would fill each broker's cap; the broker that suits it best decides.
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
        f"too big for any broker that may own it: it uses {percent(int(problem.load[row, resource]), limit)} of "
        f"{problem.broker_ids[host]}'s {limit_name(resource)}, where {end} at {percent(most, limit)}; {cut}"
    )
    return _Reason(candidate, row, need, words)


def _divides(candidate: SplitCandidate, resource: int) -> bool:
    """Whether both children of the cut carry some of this resource."""
    # In the order of RESOURCES; cpu follows the messages.
    parts = (candidate.lower_msg_rate_ppb, candidate.lower_throughput_in_ppb, candidate.lower_throughput_out_ppb)
    return 0 < parts[resource] < PPB


def _find_obstacle(problem: PoolProblem, candidate: SplitCandidate, row: int) -> str | None:
    """Say which rule forbids the split; None if it is allowed."""
    part, owner = BundleName.parse(candidate.bundle).range, int(problem.owner[row])
    if problem.topics[row] < FEWEST_TOPICS:
        return "it has fewer than two topics"
    if not part.lower < candidate.boundary < part.upper:
        return "its range cannot be cut"
    if problem.mobility[row] != Mobility.FREE:
        return f"it may not be touched ({Mobility(int(problem.mobility[row])).name.lower().replace('_', ' ')})"
    # Two children count twice, so the group would be more crowded than before.
    if problem.group[row] != NO_GROUP:
        return "its namespace is in an anti-affinity group"
    # The owner itself performs a split, and a broker that is being emptied gets no new bundles.
    if problem.states[owner] != BrokerState.ACTIVE:
        return f"its owner {problem.broker_ids[owner]} is {problem.states[owner]}"
    if problem.is_stranded[row] and candidate.reason != TOO_BIG:
        return "it has to leave its owner first, and goes whole"
    return None


def _find_limit(candidate: SplitCandidate, chosen: int, in_namespace: int, settings: Settings) -> str | None:
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


def large_bundle_sizes(
    carried: Mapping[str, Sequence[int]], pools: PoolAssignment, brokers: Sequence[Broker], settings: Settings
) -> Mapping[str, tuple[float, ...]]:
    """The load per pool and resource above which a bundle may be too big; infinite if no limit is known.

    `carried` is the total load of each namespace.
    """
    load_of_pool: dict[str, list[int]] = defaultdict(lambda: [0] * len(RESOURCES))
    for namespace, loads in carried.items():
        pool = pools.pool_of_namespace.get(namespace)
        if pool is not None:
            load_of_pool[pool] = [sum(pair) for pair in zip(load_of_pool[pool], loads, strict=True)]
    limits: dict[str, list[list[int]]] = defaultdict(list)
    for broker, limit in zip(brokers, limits_of(brokers, settings).tolist(), strict=True):
        pool = pools.pool_of_broker.get(broker.broker_id)
        if pool is not None and broker.state == BrokerState.ACTIVE:
            limits[pool].append(limit)
    return {
        pool: tuple(
            _large_bundle_size(load, [limit[place] for limit in limits[pool] if limit[place]])
            for place, load in enumerate(load_of_pool[pool])
        )
        for pool in sorted(set(load_of_pool) & set(limits))
    }


def large_candidate(
    namespace: str,
    bundle: str,
    topics: int,
    sessions: int,
    msg_rate_millis: int,
    throughput: int,
    namespace_bundles: int,
    cut: Cut,
) -> SplitCandidate:
    """Make a split candidate of a bundle that may be too big; it has neither hits nor a rank."""
    return SplitCandidate(
        namespace=namespace,
        bundle=bundle,
        reason=TOO_BIG,
        hits=0,
        topics=topics,
        sessions=sessions,
        msg_rate_per_s=msg_rate_millis / MILLI,
        throughput_bytes_per_s=float(throughput),
        rank=0,
        namespace_bundles=namespace_bundles,
        **asdict(cut),
    )


def _large_bundle_size(load: int, limits: Sequence[int]) -> float:
    return PART_OF_FAIR_SHARE * load * min(limits) / sum(limits) if limits else float("inf")


def find_large_bundles(
    brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> list[SplitCandidate]:
    """Find the bundles that may be too big for any broker, as the Spark job does for a snapshot without topics."""
    namespaces, namespace_of_row = number(bundles.namespace)
    loads = bundles.loads()
    carried = np.zeros((len(namespaces), loads.shape[1]), dtype=np.int64)
    np.add.at(carried, namespace_of_row, loads)
    pools = assign_pools(namespaces, live_broker_ids(brokers), policies)
    by_pool = large_bundle_sizes(dict(zip(namespaces, carried.tolist(), strict=True)), pools, brokers, settings)
    infinite = (np.inf,) * loads.shape[1]
    sizes = np.array([by_pool.get(pools.pool_of_namespace[name], infinite) for name in namespaces])
    is_large = (loads > sizes[namespace_of_row]).any(axis=1) & (bundles.topics >= FEWEST_TOPICS)
    in_namespace = np.bincount(namespace_of_row, minlength=len(namespaces))
    found = []
    for row in np.flatnonzero(is_large).tolist():
        name = str(bundles.bundle[row])
        cut = find_cut(BundleName.parse(name).range, NO_TOPICS)
        if cut is not None:
            found.append(
                large_candidate(
                    namespace=str(bundles.namespace[row]),
                    bundle=name,
                    topics=int(bundles.topics[row]),
                    sessions=int(bundles.sessions[row]),
                    msg_rate_millis=int(bundles.msg_rate_millis[row]),
                    throughput=int(bundles.throughput_in[row] + bundles.throughput_out[row]),
                    namespace_bundles=int(in_namespace[namespace_of_row[row]]),
                    cut=cut,
                )
            )
    return sorted(found, key=lambda candidate: candidate.bundle)
