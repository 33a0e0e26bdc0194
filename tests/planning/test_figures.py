"""Shares of cpu, and how long a client is away."""

from __future__ import annotations

import numpy as np
import pytest

from evenkeel.planning.disruption import expected_outage_ms
from evenkeel.planning.load import share_cpu


def test_cpu_is_shared_by_message_rate() -> None:
    shares = share_cpu([1000, 3000, 500, 0], [0, 0, 1, 1], [40.0, 10.0])
    assert shares.tolist() == [10_000, 30_000, 10_000, 0]
    assert shares.dtype == np.int64


def test_cpu_without_messages_or_owner_or_report_is_not_shared() -> None:
    assert share_cpu([0, 5, 7], [0, -1, 1], [40.0, None]).tolist() == [0, 0, 0]


def test_large_rates_do_not_overflow() -> None:
    rate = 10_000_000_000
    assert share_cpu([rate, rate], [0, 0], [12_800.0]).tolist() == [6_400_000, 6_400_000]


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
