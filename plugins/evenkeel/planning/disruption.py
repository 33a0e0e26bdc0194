"""What a step costs the clients of its bundle, in client-milliseconds: waiting to be back, and catching up after it.

Everything is a whole number, so that a plan costs the same on any machine.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from evenkeel.planning.arrays import Ints

FIRST_DELAY_MS = 100
LONGEST_DELAY_MS = 60_000
# A client comes up to a tenth of the delay early.
JITTER_PARTS = 10
# Shares and factors of the settings are taken in thousandths.
MILLI = 1_000


def pricing_of(load_manager: str, settings: Settings) -> Settings:
    """The settings by which steps are priced: on a modular cluster a transfer is an unload to whatever client."""
    if load_manager == LoadManager.MODULAR:
        return replace(settings, transfer_aware_clients_share=0.0)
    return settings


def transfer_prices(sessions: Ints, settings: Settings) -> Ints:
    """What transfers of bundles with these sessions cost, catching up left out: sessions × the expected outage.

    Clients that know transfers are told the new owner; the others gain nothing and are away as long as for an unload.
    """
    return sessions * _share_of_both(
        expected_outage_ms(settings.transfer_hand_over_ms), expected_outage_ms(settings.unload_hand_over_ms), settings
    )


def unload_prices(sessions: Ints, settings: Settings) -> Ints:
    """What unloads of bundles with these sessions cost, catching up left out."""
    return sessions * expected_outage_ms(settings.unload_hand_over_ms)


def step_prices(kind: str, sessions: Ints, throughput_out: Ints, settings: Settings) -> Ints:
    """All that steps of a kind cost; only bundles that anybody reads from have something to catch up.

    A split leaves topics and clients where they are and costs nothing.
    """
    if kind == StepKind.SPLIT:
        return np.zeros_like(sessions)
    prices = transfer_prices if kind == StepKind.TRANSFER else unload_prices
    readers: Ints = np.where(throughput_out > 0, sessions, 0)
    # Rounded last: in whole consumers, two bundles of one session would cost less than one bundle of two.
    consumers_milli = readers * round(settings.consumer_sessions_share * MILLI)
    return prices(sessions, settings) + consumers_milli * _catch_up_ms(kind, settings) // MILLI


def client_milliseconds(kind: str, sessions: int, throughput_out: int, settings: Settings) -> int:
    """All that one step costs."""
    return int(step_prices(kind, np.array([sessions]), np.array([throughput_out]), settings)[0])


@lru_cache(maxsize=64)
def expected_outage_ms(served_after_ms: int) -> int:
    """Expected time from the cut to the first reconnect attempt that finds the bundle served.

    Attempts are planned 100, 300, 700, 1500 … ms after the cut: each delay is twice the one before, up to a
    minute. Each attempt comes early by a part of the time since the cut that is uniform between nothing and a tenth.
    """
    latest, delay = FIRST_DELAY_MS, FIRST_DELAY_MS
    expected_millionths, still_out = 0, 1_000_000
    while still_out:
        earliest = latest - latest // JITTER_PARTS
        if served_after_ms <= earliest:
            return (expected_millionths + still_out * (earliest + latest) // 2) // 1_000_000
        if served_after_ms < latest:
            # Attempts between the hand-over and the latest moment succeed; the others try again.
            succeed = still_out * (latest - served_after_ms) // (latest - earliest)
            expected_millionths += succeed * (served_after_ms + latest) // 2
            still_out -= succeed
        delay = min(2 * delay, LONGEST_DELAY_MS)
        latest += delay
    return expected_millionths // 1_000_000


def _catch_up_ms(kind: str, settings: Settings) -> int:
    """How long a consumer reads until it is level with its stream again.

    While it was away, as much piled up as its stream brings in that time; an unload adds what it had received but not
    acknowledged. It reads faster than its stream flows, which goes on flowing: what is gained is the difference.
    """
    gain_milli = round((settings.catch_up_read_factor - 1) * MILLI)
    unloaded = expected_outage_ms(settings.unload_hand_over_ms) + settings.unacknowledged_ms
    behind = unloaded
    if kind == StepKind.TRANSFER:
        behind = _share_of_both(expected_outage_ms(settings.transfer_hand_over_ms), unloaded, settings)
    return behind * MILLI // gain_milli


def _share_of_both(aware_ms: int, unaware_ms: int, settings: Settings) -> int:
    """The mean over clients that know transfers and clients that do not."""
    aware = round(settings.transfer_aware_clients_share * MILLI)
    return (aware * aware_ms + (MILLI - aware) * unaware_ms) // MILLI
