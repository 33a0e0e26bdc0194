"""Whether this machine and the brokers agree on the time, found out before anything is written.

The fence measures the offset against ZooKeeper's clock to the millisecond, but has to write a node for it. What brokers
say is good to a second, and costs nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from evenkeel.adapters.broker_http import BrokerHttp
from evenkeel.adapters.cluster_kind import RUNTIME_PATH
from evenkeel.model.errors import RefusedError

# One broker with a wrong clock must not decide.
MOST_ASKED = 5


def require_good_clock(http: BrokerHttp, web_urls: Sequence[str], limit_s: float) -> None:
    """Refuse to go on with a clock that is off; brokers that say nothing about the time have no say."""
    answers = http.fetch([url + RUNTIME_PATH for url in web_urls[:MOST_ASKED]])
    offsets = [answer.clock_offset_s for answer in answers if answer.clock_offset_s is not None]
    offset_s = abs(statistics.median(offsets)) if offsets else 0.0
    if offset_s > limit_s:
        raise RefusedError(
            f"this machine's clock is at least {offset_s:.0f} s off the brokers', the limit is {limit_s:.1f} s",
            "synchronise the clocks",
        )
