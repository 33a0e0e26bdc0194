"""What a step costs its clients: waiting for the new owner, and catching up after it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import assemble
from evenkeel.planning.problem.disruption import (
    client_milliseconds,
    expected_outage_ms,
    step_prices,
    transfer_prices,
    unload_prices,
)
from support.clusters import context
from support.moves import broker, move, pool_plan

# The expected outages for hand-over times of 500 and 2,000 ms.
TRANSFER_MS, UNLOAD_MS = 665, 2_945
SESSIONS = np.array([0, 1, 10, 1_000_000])


def test_clients_that_know_transfers_wait_for_the_hand_over_only() -> None:
    settings = Settings(transfer_aware_clients_share=1.0)
    assert transfer_prices(SESSIONS, settings).tolist() == [0, 665, 6_650, 665_000_000]


def test_clients_that_do_not_know_transfers_gain_nothing_from_one() -> None:
    settings = Settings(transfer_aware_clients_share=0.0)
    assert transfer_prices(SESSIONS, settings).tolist() == unload_prices(SESSIONS, settings).tolist()
    for throughput in (0, 1_000):
        transfer, unload = (
            client_milliseconds(kind, 10, throughput, settings) for kind in (StepKind.TRANSFER, StepKind.UNLOAD)
        )
        assert transfer == unload > 0


def test_prices_of_transfers_are_whole_and_proportional_to_sessions() -> None:
    prices = transfer_prices(SESSIONS, Settings(transfer_aware_clients_share=0.333))
    assert prices.dtype == np.int64
    each = (333 * TRANSFER_MS + 667 * UNLOAD_MS) // 1_000
    assert prices.tolist() == [0, each, 10 * each, 1_000_000 * each]


def test_consumers_read_what_piled_up_at_a_multiple_of_their_rate() -> None:
    # 4 of 10 sessions are consumers; reading at three times the rate they gain two seconds a second
    settings = Settings(transfer_aware_clients_share=1.0, consumer_sessions_share=0.4, catch_up_read_factor=3.0)
    assert client_milliseconds(StepKind.TRANSFER, 10, 1, settings) == 10 * TRANSFER_MS + 4 * (TRANSFER_MS // 2)


def test_half_a_consumer_catches_up_for_half_its_price() -> None:
    # one session in two is a consumer: two bundles of one session cost as much as one bundle of two
    one, two = (client_milliseconds(StepKind.TRANSFER, sessions, 1, Settings()) for sessions in (1, 2))
    assert 2 * one == two


def test_nobody_catches_up_on_a_bundle_that_nobody_reads() -> None:
    settings = Settings(transfer_aware_clients_share=1.0)
    assert client_milliseconds(StepKind.TRANSFER, 10, 0, settings) == 10 * TRANSFER_MS


@pytest.mark.parametrize("unacknowledged_ms", [0, 1_000])
def test_what_was_not_acknowledged_is_delivered_again_after_an_unload(unacknowledged_ms: int) -> None:
    settings = Settings(unacknowledged_ms=unacknowledged_ms, consumer_sessions_share=1.0, catch_up_read_factor=2.0)
    behind = UNLOAD_MS + unacknowledged_ms
    assert client_milliseconds(StepKind.UNLOAD, 10, 1, settings) == 10 * UNLOAD_MS + 10 * behind


def test_redelivery_does_not_touch_clients_that_know_transfers() -> None:
    few, many = (
        Settings(unacknowledged_ms=lag, transfer_aware_clients_share=1.0, consumer_sessions_share=1.0)
        for lag in (0, 60_000)
    )
    prices = [client_milliseconds(StepKind.TRANSFER, 10, 1, settings) for settings in (few, many)]
    assert prices[0] == prices[1]


def test_split_disturbs_nobody() -> None:
    assert step_prices(StepKind.SPLIT, SESSIONS, SESSIONS, Settings()).tolist() == [0, 0, 0, 0]


def test_transfer_is_never_dearer_than_an_unload() -> None:
    for share in (0.0, 0.2, 0.5, 0.9, 1.0):
        settings = Settings(transfer_aware_clients_share=share)
        transfers, unloads = (
            step_prices(kind, SESSIONS, SESSIONS, settings) for kind in (StepKind.TRANSFER, StepKind.UNLOAD)
        )
        assert (transfers <= unloads).all()


@pytest.mark.parametrize(
    ("load_manager", "kind"),
    [("extensible", StepKind.TRANSFER), ("modular", StepKind.UNLOAD), ("imported", StepKind.TRANSFER)],
)
def test_on_a_modular_cluster_every_transfer_is_an_unload_to_its_clients(load_manager: str, kind: str) -> None:
    settings = Settings(transfer_aware_clients_share=0.7)
    plan = pool_plan([broker("a", 800), broker("b", 0)], [move("a>b", 100, sessions=20)])
    planned = assemble([plan], context(settings, load_manager=load_manager))
    assert [step.disruption_client_ms for step in planned.steps] == [client_milliseconds(kind, 20, 100, settings)]


def test_plan_says_what_it_costs_in_all_by_wave_and_by_tenant() -> None:
    moves = [
        move("a>b", 20, bundle="small/ns/0", sessions=1),
        move("a>b", 10, bundle="large/ns/0", sessions=30),
        move("a>b", 10, bundle="large/ns/1", sessions=20),
    ]
    settings = Settings(transfer_aware_clients_share=1.0, consumer_sessions_share=0.0)
    plan = assemble([pool_plan([broker("a", 800), broker("b", 0)], moves)], context(settings)).plan
    canary = {"steps": 1, "sessions": 1, "client_seconds": 0.665, "moved_bytes_per_s": 40}
    rest = {"steps": 2, "sessions": 50, "client_seconds": 33.25, "moved_bytes_per_s": 40}
    assert json.loads(plan.encode())["disruption"] == {
        "steps": 3,
        "sessions": 51,
        "client_seconds": 33.915,
        "moved_bytes_per_s": 80,
        "waves": [{"wave": 0, **canary}, {"wave": 1, **rest}],
        "tenants": [{"tenant": "large", **rest}, {"tenant": "small", **canary}],
        "tenants_in_all": 2,
    }


def test_of_many_tenants_the_twenty_that_pay_most_are_named() -> None:
    moves = [move("a>b", 1, bundle=f"tenant{number:02}/ns/0", sessions=number) for number in range(30)]
    disruption = assemble([pool_plan([broker("a", 800), broker("b", 0)], moves)], context(Settings())).plan.disruption
    assert [row.tenant for row in disruption.tenants] == [f"tenant{number}" for number in range(29, 9, -1)]
    assert disruption.tenants_in_all == 30


@pytest.mark.parametrize(
    ("hand_over_ms", "expected_ms"),
    [
        (1, 95),  # the first attempt, 90 to 100 ms after the cut, finds the bundle served
        (90, 95),
        (101, 285),  # the first comes too early, the second comes 270 to 300 ms after the cut
        (500, 665),
        (2_000, 2_945),
        (95, 191),  # half of the first attempts succeed at 97.5 ms on average, the others at 285
    ],
)
def test_outage_ends_with_the_first_attempt_after_the_hand_over(hand_over_ms: int, expected_ms: int) -> None:
    assert expected_outage_ms(hand_over_ms) == expected_ms


def test_longer_hand_overs_never_cost_less() -> None:
    outages = [expected_outage_ms(served) for served in range(1, 30_000, 7)]
    assert outages == sorted(outages)
    assert all(outage >= served for served, outage in zip(range(1, 30_000, 7), outages, strict=True))
