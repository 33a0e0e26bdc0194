"""Plans one pool from its rows: chooses what is split, then what moves, the children of the splits included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from evenkeel.model.load import SplitCandidate
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.floors import Band, find_band
from evenkeel.planning.largest_loads import largest_loads
from evenkeel.planning.pool_plan import PoolPlan, SplitMove
from evenkeel.planning.problem import PoolProblem, build_problem
from evenkeel.planning.search.optimiser import Certifier, always, solve
from evenkeel.planning.splitting.choice import TOO_BIG, SplitChoice, choose_splits
from evenkeel.planning.splitting.splits import apply_splits


def plan_pool(
    pool: str,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    candidates: Sequence[SplitCandidate] = (),
    has_time: Callable[[], bool] = always,
    certifier: Certifier | None = None,
) -> PoolPlan:
    """Plan a pool; `candidates` may name bundles of other pools and bundles that turn out not to be too big."""
    problem = build_problem(pool, brokers, bundles, policies, settings)
    if not candidates:
        return solve(problem, settings, has_time, certifier=certifier)
    band = find_band(problem, settings)
    choice = choose_splits(problem, band, candidates, settings)
    splits = _split_moves(problem, choice, settings)
    if splits:
        divided = build_problem(pool, brokers, apply_splits(bundles, choice.splits), policies, settings)
        plan = _count_whole_bundles(solve(divided, settings, has_time, problem, certifier), problem, band)
    else:
        plan = solve(problem, settings, has_time, certifier=certifier)
    parent_of = {child: split.bundle for split in splits for child in split.children}
    return replace(
        plan,
        splits=splits,
        moves=tuple(replace(move, after_split_of=parent_of.get(move.bundle)) for move in plan.moves),
        rejections=(*plan.rejections, *choice.rejections),
    )


def _count_whole_bundles(plan: PoolPlan, unsplit: PoolProblem, band: Band) -> PoolPlan:
    """Let the curve's fewest moves hold for plans without these splits too, whose bundles carry more each."""
    largest = largest_loads(unsplit, band)
    return replace(
        plan, brokers=tuple(replace(row, largest=its) for row, its in zip(plan.brokers, largest, strict=True))
    )


def _split_moves(problem: PoolProblem, choice: SplitChoice, settings: Settings) -> tuple[SplitMove, ...]:
    """The splits with their owners; `problem` still has the bundles whole."""
    wanted = {split.bundle for split in choice.splits}
    row_of = {name: row for row, name in enumerate(problem.bundles.tolist()) if name in wanted}
    moves = []
    for place, split in enumerate(choice.splits):
        row, candidate = row_of[split.bundle], split.candidate
        # Bundles that are only too big come after every candidate of PIP-192, of whatever pool.
        after_candidates = settings.max_number_of_bundles_to_split_per_cycle + 1 + place
        moves.append(
            SplitMove(
                bundle=split.bundle,
                source=int(problem.owner[row]),
                version_id=problem.version_ids[row],
                boundary=candidate.boundary,
                children=split.children,
                rank=candidate.rank or after_candidates,
                is_only_for_moves=candidate.reason == TOO_BIG,
                reason=split.reason,
            )
        )
    return tuple(moves)
