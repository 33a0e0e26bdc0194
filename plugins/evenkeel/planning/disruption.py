"""What a step costs the clients of its bundle: sessions × the expected time until a client is back."""

from __future__ import annotations

from functools import lru_cache

from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings

FIRST_DELAY_MS = 100
LONGEST_DELAY_MS = 60_000
# A client comes up to a tenth of the delay early.
JITTER_PARTS = 10


def client_milliseconds(sessions: int, hand_over_ms: int) -> int:
    """Expected client-milliseconds of a step whose bundle is served again after the hand-over time."""
    return sessions * expected_outage_ms(hand_over_ms)


def hand_over_ms(kind: str, settings: Settings) -> int:
    """The expected time from the cut until someone serves the bundle again."""
    if kind == StepKind.TRANSFER:
        return settings.transfer_hand_over_ms
    return settings.unload_hand_over_ms


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
