"""What it costs to move a bundle, by the objective of the settings."""

from __future__ import annotations

import numpy as np

from evenkeel.model.load import RESOURCES, Resource
from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.arrays import Floats, Ints
from evenkeel.planning.disruption import pricing_of, step_prices
from evenkeel.planning.problem import PoolProblem
from evenkeel.planning.search.hot_brokers import HotBroker, find_hot_brokers
from evenkeel.planning.search.knapsack import cheapest_part, fewest_bundles

# Of two plans with as many moves the one with fewer client-seconds wins, and the other way round: the second
# objective has this weight against the first.
TIE_BREAK = 0.02
# In `balanced` a percent more client-seconds counts for a little less than a percent more moves: each move also
# takes its share of the window.
BALANCED_CLIENTS = 0.65


def price_bundles(problem: PoolProblem, cap: Ints, settings: Settings) -> Floats:
    """The price of moving each bundle, where brokers aim below these caps; on average about 1.

    A price has a part that every move costs and a part that grows with the client-seconds. Each is measured in what
    the least of it would be for the whole pool, so that `balanced` weighs the one against the other.
    """
    client_ms = _client_ms(problem, settings)
    hot = find_hot_brokers(problem, cap)
    if hot:
        fewest = max(sum(_fewest_moves(problem, broker) for broker in hot), 1)
        least_ms = max(sum(_least_client_ms(problem, broker, client_ms) for broker in hot), 1)
    else:
        # Nobody has to hand anything over for the sake of balance: the average bundle is the measure.
        fewest, least_ms = max(len(client_ms), 1), max(int(client_ms.sum()), 1)
    by_move, by_client = {
        "moves": (1.0, TIE_BREAK),
        "disruption": (TIE_BREAK, 1.0),
        "balanced": (1.0, BALANCED_CLIENTS),
    }[settings.objective]
    return by_move + by_client * client_ms.astype(np.float64) * (fewest / least_ms)


def _client_ms(problem: PoolProblem, settings: Settings) -> Ints:
    """What the step of each bundle will be charged with, catching up included."""
    throughput_out = problem.load[:, RESOURCES.index(Resource.BANDWIDTH_OUT)]
    pricing = pricing_of(problem.load_manager, settings)
    return step_prices(StepKind.TRANSFER, problem.sessions, throughput_out, pricing)


def _fewest_moves(problem: PoolProblem, hot: HotBroker) -> int:
    return max(
        fewest_bundles(problem.load[hot.bundles, resource], int(hot.excess[resource]))
        for resource in np.flatnonzero(hot.excess)
    )


def _least_client_ms(problem: PoolProblem, hot: HotBroker, client_ms: Ints) -> int:
    return max(
        cheapest_part(problem.load[hot.bundles, resource], client_ms[hot.bundles], int(hot.excess[resource]))
        for resource in np.flatnonzero(hot.excess)
    )
