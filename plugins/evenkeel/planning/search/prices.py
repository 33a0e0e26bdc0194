"""The price of moving each bundle, by the objective in the settings."""

from __future__ import annotations

import numpy as np

from evenkeel.model.load import RESOURCES, Resource
from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.problem.columns import Floats, Ints
from evenkeel.planning.problem.disruption import pricing_of, step_prices
from evenkeel.planning.problem.problem import PoolProblem
from evenkeel.planning.search.hot_brokers import HotBroker, cheapest_part, fewest_bundles, find_hot_brokers

# The weight of the secondary objective: among plans with equally many moves, fewer client-seconds win, and vice versa.
TIE_BREAK = 0.02
# With `balanced`, one percent more client-seconds weighs a little less than one percent more moves, because every move
# also takes its share of the window.
BALANCED_CLIENTS = 0.65


def price_bundles(problem: PoolProblem, cap: Ints, settings: Settings) -> Floats:
    """The price of moving each bundle while brokers aim below these caps; about 1 on average.

    A price has a fixed part per move and a part proportional to the client-seconds. Each is scaled by the least that
    the whole pool needs of it, so that `balanced` can weigh one against the other.
    """
    client_ms = _client_ms(problem, settings)
    hot = find_hot_brokers(problem, cap)
    if hot:
        fewest = max(sum(_fewest_moves(problem, broker) for broker in hot), 1)
        least_ms = max(sum(_least_client_ms(problem, broker, client_ms) for broker in hot), 1)
    else:
        # No broker has to give anything up for balance, so the average bundle sets the scale.
        fewest, least_ms = max(len(client_ms), 1), max(int(client_ms.sum()), 1)
    by_move, by_client = {
        "moves": (1.0, TIE_BREAK),
        "disruption": (TIE_BREAK, 1.0),
        "balanced": (1.0, BALANCED_CLIENTS),
    }[settings.objective]
    return by_move + by_client * client_ms.astype(np.float64) * (fewest / least_ms)


def _client_ms(problem: PoolProblem, settings: Settings) -> Ints:
    """The disruption that a step for each bundle is charged with, catch-up reads included."""
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
