"""Plan one pool: choose what to split, search for the moves, certify them, and describe the result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from evenkeel.model.load import SplitCandidate
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.pool.description import describe
from evenkeel.planning.pool.plan import PoolPlan, SplitMove
from evenkeel.planning.problem.band import Band, find_band
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.problem.pools import cut_into_pools
from evenkeel.planning.problem.problem import PoolProblem, build_problem
from evenkeel.planning.search.bounds import PoolBounds, bound_moves_without_splits, certify
from evenkeel.planning.search.hot_brokers import largest_loads
from evenkeel.planning.search.optimiser import always, search
from evenkeel.planning.search.placement import Placement, Solution
from evenkeel.planning.splitting.choice import TOO_BIG, SplitChoice, choose_splits
from evenkeel.planning.splitting.cuts import apply_splits

Certifier = Callable[[Solution], PoolBounds]


def plan_pool(
    pool: str,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    candidates: Sequence[SplitCandidate] = (),
    has_time: Callable[[], bool] = always,
    certifier: Certifier = certify,
    unreported: Collection[str] = (),
) -> PoolPlan:
    """Plan a pool, with reasons and bounds. The plan is empty if nothing would get better.

    `candidates` for splits may include bundles of other pools and bundles that turn out not to be too big. The
    children of a split may be moved by the same plan. A pool with a broker in `unreported` is left as it is.
    """
    problem = build_problem(pool, brokers, bundles, policies, settings, unreported)
    if not candidates:
        solution = search(problem, settings, has_time)
        return describe(solution, settings, certifier(solution))
    band = find_band(problem, settings)
    choice = choose_splits(problem, band, candidates, settings)
    divided = problem
    if choice.splits:
        divided = build_problem(pool, brokers, apply_splits(bundles, choice.splits), policies, settings, unreported)
    solution = search(divided, settings, has_time)
    bounds = certifier(solution)
    if choice.splits and bounds.moves:
        # Only the moves can be fewer without splits: two children that move count twice, but carry what the parent did.
        without_splits = bound_moves_without_splits(Placement(problem, band, settings), band, solution)
        bounds = replace(bounds, moves=min(bounds.moves, without_splits))
    return _with_splits(describe(solution, settings, bounds), problem, band, choice, settings)


def plan_pools(
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    candidates: Sequence[SplitCandidate] = (),
    has_time: Callable[[], bool] = always,
    certifier: Certifier = certify,
) -> list[PoolPlan]:
    """Plan all pools of a cluster in this process, ordered by name; the Spark job plans them on executors instead."""
    return [
        plan_pool(pool, brokers, rows, policies, settings, candidates, has_time, certifier)
        for pool, rows in cut_into_pools(brokers, bundles, policies)
    ]


def _with_splits(plan: PoolPlan, unsplit: PoolProblem, band: Band, choice: SplitChoice, settings: Settings) -> PoolPlan:
    """Add the splits to the plan of a pool's divided bundles, and what was not split to its rejections."""
    splits = _split_moves(unsplit, choice, settings)
    parent_of = {child: split.bundle for split in splits for child in split.children}
    brokers = plan.brokers
    if splits:
        # The curve's fewest moves have to hold for plans without these splits too, whose bundles carry more each.
        largest = largest_loads(unsplit, band)
        brokers = tuple(replace(row, largest=its) for row, its in zip(brokers, largest, strict=True))
    return replace(
        plan,
        brokers=brokers,
        splits=splits,
        moves=tuple(replace(move, after_split_of=parent_of.get(move.bundle)) for move in plan.moves),
        refusals=replace(plan.refusals, lasting=(*plan.refusals.lasting, *choice.rejections)),
    )


def _split_moves(unsplit: PoolProblem, choice: SplitChoice, settings: Settings) -> tuple[SplitMove, ...]:
    """The chosen splits with the owners of the undivided bundles."""
    wanted = {split.bundle for split in choice.splits}
    row_of = {name: row for row, name in enumerate(unsplit.bundles.tolist()) if name in wanted}
    moves = []
    for place, split in enumerate(choice.splits):
        row, candidate = row_of[split.bundle], split.candidate
        # Bundles that are merely too big come after all candidates by PIP-192, in whichever pool those are.
        after_candidates = settings.max_number_of_bundles_to_split_per_cycle + 1 + place
        moves.append(
            SplitMove(
                bundle=split.bundle,
                source=int(unsplit.owner[row]),
                version_id=unsplit.version_ids[row],
                boundary=candidate.boundary,
                children=split.children,
                rank=candidate.rank or after_candidates,
                is_only_for_moves=candidate.reason == TOO_BIG,
                reason=split.reason,
            )
        )
    return tuple(moves)
