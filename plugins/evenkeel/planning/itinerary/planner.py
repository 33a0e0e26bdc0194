"""Plan a rolling restart: refuse what cannot be, prove the capacity, find an order, and state the fewest moves.

The result holds in every state on the way. Each stage empties one broker by moves that only leave that broker. No
bundle moves more than twice. No broker that takes part is above the overload line, whether the broker of the stage is
full, half empty, away or back. Eligibility, topic limit and anti-affinity groups are those of every plan.

Two ideas keep the moves few. A broker that has been restarted is empty and need not be emptied again, so whatever moves
there has moved for the last time. And only the first broker of a pool finds no such broker. `bound` states what follows
for the number of moves, `checker` judges every result without this code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.explaining.words import count
from evenkeel.planning.itinerary.bound import find_bound
from evenkeel.planning.itinerary.capacity import prove_capacity
from evenkeel.planning.itinerary.crowding import find_crowded
from evenkeel.planning.itinerary.order import OrderSearch, Trial, TriedStage
from evenkeel.planning.itinerary.refusals import (
    find_overloaded,
    find_refused,
    find_short,
    line_percent,
    name_overloaded_elsewhere,
)
from evenkeel.planning.itinerary.restart_problem import RestartProblem, build_restart_problem
from evenkeel.planning.itinerary.results import (
    BrokerRefusal,
    Itinerary,
    Peak,
    RefusalKind,
    RefusedItinerary,
    RestartRequest,
    Stage,
    StageMove,
)
from evenkeel.planning.problem.columns import BundleColumns, Ints

ALL_BROKERS = RestartRequest()


def plan_itinerary(
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    request: RestartRequest = ALL_BROKERS,
) -> Itinerary | RefusedItinerary:
    """Plan the restart of the requested brokers of a snapshot; the same input always gives the same itinerary."""
    return solve(build_restart_problem(brokers, bundles, policies, settings, request), settings)


def solve(problem: RestartProblem, settings: Settings) -> Itinerary | RefusedItinerary:
    """Plan a restart that is given as arrays."""
    refused = [*find_refused(problem)]
    if refused:
        return RefusedItinerary(tuple(refused))
    proof = prove_capacity(problem, settings)
    refused = [*find_overloaded(problem, settings), *find_short(proof), *find_crowded(problem)]
    refused.sort(key=lambda refusal: refusal.broker_id)
    if refused:
        return RefusedItinerary(tuple(refused), proof)
    bound = find_bound(problem)
    search = OrderSearch(problem, settings, bound.moves)
    best = search.find_best()
    if best.stuck is not None:
        return RefusedItinerary((_explain_stuck(problem, settings, best, search.trials),), proof)
    return Itinerary(_describe(problem, best.stages), proof, bound, name_overloaded_elsewhere(problem, settings))


def _explain_stuck(problem: RestartProblem, settings: Settings, trial: Trial, trials: int) -> BrokerRefusal:
    assert trial.stuck is not None
    assert trial.stuck_on is not None
    name, row = problem.broker_ids[trial.stuck_on], int(trial.stuck[0])
    eligible = int(problem.destinations(np.array([row]))[0].sum())
    reason = (
        f"{name} cannot be emptied as number {len(trial.stages) + 1} in the best of {count(trials, 'order')} that were "
        f"tried: {count(len(trial.stuck), 'bundle')} found no place, first {problem.bundles[row]}, which "
        f"{count(eligible, 'other broker')} may own, but not above {line_percent(settings)} of a limit, beyond the "
        "topic limit, with more of its anti-affinity group than before, or with a third move"
    )
    remedy = "restart fewer brokers at a time, add a broker, or split its largest bundles"
    return BrokerRefusal(name, RefusalKind.NO_PLACEMENT, reason, remedy)


def _describe(problem: RestartProblem, stages: Sequence[TriedStage]) -> tuple[Stage, ...]:
    moved = np.zeros(len(problem.bundles), dtype=np.int64)
    described = []
    for place, stage in enumerate(stages, start=1):
        source = problem.broker_ids[stage.broker]
        moves = [
            StageMove(str(problem.bundles[row]), source, problem.broker_ids[destination], bool(moved[row]))
            for row, destination in zip(stage.rows.tolist(), stage.destinations.tolist(), strict=True)
        ]
        moved[stage.rows] += 1
        described.append(Stage(place, source, tuple(moves), _find_peak(problem, stage.used)))
    return tuple(described)


def _find_peak(problem: RestartProblem, used: Ints) -> Peak:
    is_measured = problem.takes_part[:, None] & (problem.limit > 0)
    if not is_measured.any():
        return Peak("", "", 0, 0)
    share = np.where(is_measured, used / np.maximum(problem.limit, 1), -1.0)
    broker, resource = (int(place) for place in np.unravel_index(np.argmax(share), share.shape))
    return Peak(
        problem.broker_ids[broker],
        RESOURCES[resource],
        int(used[broker, resource]),
        int(problem.limit[broker, resource]),
    )
