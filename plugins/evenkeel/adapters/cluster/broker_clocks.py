"""This machine's clock against the brokers', by the dates of their answers: good to a second, and without a write."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from evenkeel.adapters.brokers.broker_http import BrokerHttp, clock_offsets
from evenkeel.adapters.cluster.registrations import Registration
from evenkeel.adapters.cluster.runtime_configuration import RUNTIME_PATH
from evenkeel.model.errors import RefusedError

# One broker with a wrong clock must not decide.
MOST_CLOCKS_ASKED = 5


def fetch_clock_offsets(http: BrokerHttp, registrations: Sequence[Registration]) -> list[float]:
    """How far this machine's clock is off that of some brokers, at the least."""
    return clock_offsets(http.fetch([r.web_url + RUNTIME_PATH for r in registrations[:MOST_CLOCKS_ASKED]]))


def require_good_clock(offsets_s: Sequence[float], limit_s: float) -> None:
    """Refuse to go on if this machine's clock is off the brokers'.

    The fence measures the offset against ZooKeeper's clock to the millisecond, but has to write a node for it.
    """
    offset_s = abs(statistics.median(offsets_s)) if offsets_s else 0.0
    if offset_s > limit_s:
        raise RefusedError(
            f"this machine's clock is at least {offset_s:.0f} s off the brokers', the limit is {limit_s:.1f} s",
            "synchronise the clocks",
        )
