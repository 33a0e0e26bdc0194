"""The disruption of a step, in client-milliseconds: the outage of the bundle's clients, and their catch-up reads.

All arithmetic is in integers, so that a plan costs the same on any machine.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from evenkeel.planning.problem.columns import Ints

FIRST_DELAY_MS = 100
LONGEST_DELAY_MS = 60_000
# A client reconnects up to a tenth of the delay early.
JITTER_PARTS = 10
# Shares and factors of the settings are converted to thousandths.
MILLI = 1_000


def pricing_of(load_manager: str, settings: Settings) -> Settings:
    """The settings that price steps: on a modular cluster, a transfer is an unload for every client."""
    if load_manager == LoadManager.MODULAR:
        return replace(settings, transfer_aware_clients_share=0.0)
    return settings


def transfer_prices(sessions: Ints, settings: Settings) -> Ints:
    """The price of transfers without catch-up reads: sessions × the expected outage.

    Clients that support transfers are told the new owner; for the others the outage is as long as for an unload.
    """
    return sessions * _share_of_both(
        expected_outage_ms(settings.transfer_hand_over_ms), expected_outage_ms(settings.unload_hand_over_ms), settings
    )


def unload_prices(sessions: Ints, settings: Settings) -> Ints:
    """The price of unloads without catch-up reads."""
    return sessions * expected_outage_ms(settings.unload_hand_over_ms)


def step_prices(kind: str, sessions: Ints, throughput_out: Ints, settings: Settings) -> Ints:
    """The full price of steps of a kind. Only bundles with readers have catch-up reads.

    A split leaves topics and clients where they are, so it costs nothing.
    """
    if kind == StepKind.SPLIT:
        return np.zeros_like(sessions)
    prices = transfer_prices if kind == StepKind.TRANSFER else unload_prices
    readers: Ints = np.where(throughput_out > 0, sessions, 0)
    # Rounded last: rounded to whole consumers, two bundles of one session would cost less than one bundle of two.
    consumers_milli = readers * round(settings.consumer_sessions_share * MILLI)
    return prices(sessions, settings) + consumers_milli * _catch_up_ms(kind, settings) // MILLI


def client_milliseconds(kind: str, sessions: int, throughput_out: int, settings: Settings) -> int:
    """The full price of one step."""
    return int(step_prices(kind, np.array([sessions]), np.array([throughput_out]), settings)[0])


@lru_cache(maxsize=64)
def expected_outage_ms(served_after_ms: int) -> int:
    """Expected time from the disconnect to the first reconnect attempt that finds the bundle served.

    Attempts are scheduled 100, 300, 700, 1500 … ms after the disconnect: each delay is twice the one before, up to a
    minute. Each attempt comes early by a uniformly distributed share of the elapsed time, between 0 and a tenth.
    """
    latest, delay = FIRST_DELAY_MS, FIRST_DELAY_MS
    expected_millionths, still_out = 0, 1_000_000
    while still_out:
        earliest = latest - latest // JITTER_PARTS
        if served_after_ms <= earliest:
            return (expected_millionths + still_out * (earliest + latest) // 2) // 1_000_000
        if served_after_ms < latest:
            # Attempts between the hand-over and the latest time succeed; earlier ones are repeated.
            succeed = still_out * (latest - served_after_ms) // (latest - earliest)
            expected_millionths += succeed * (served_after_ms + latest) // 2
            still_out -= succeed
        delay = min(2 * delay, LONGEST_DELAY_MS)
        latest += delay
    return expected_millionths // 1_000_000


def _catch_up_ms(kind: str, settings: Settings) -> int:
    """How long a consumer reads until it has caught up with its stream.

    During the outage the stream's messages pile up; an unload adds those that were received but not acknowledged. The
    consumer reads faster than the stream flows, and catches up by the difference.
    """
    gain_milli = round((settings.catch_up_read_factor - 1) * MILLI)
    unloaded = expected_outage_ms(settings.unload_hand_over_ms) + settings.unacknowledged_ms
    behind = unloaded
    if kind == StepKind.TRANSFER:
        behind = _share_of_both(expected_outage_ms(settings.transfer_hand_over_ms), unloaded, settings)
    return behind * MILLI // gain_milli


def _share_of_both(aware_ms: int, unaware_ms: int, settings: Settings) -> int:
    """The mean over clients that support transfers and clients that do not."""
    aware = round(settings.transfer_aware_clients_share * MILLI)
    return (aware * aware_ms + (MILLI - aware) * unaware_ms) // MILLI
