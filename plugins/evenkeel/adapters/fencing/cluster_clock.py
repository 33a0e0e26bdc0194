"""ZooKeeper's clock as the writer knows it: measured with each batch, running on monotonic time in between.

Pulsar's leader overrides a step whose timestamp looks old, so a machine whose clock is off must not write. ZooKeeper
puts its own time on every node that it writes: the writer reads that of its journal entries. A clock that somebody sets
in mid-run is noticed before the next batch, because monotonic time does not follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from evenkeel.model.errors import RunStoppedError
from evenkeel.ports import Clock

_REMEDY = "synchronise the clocks, then run the same command again"


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by the wall clock of this machine and by its monotonic clock."""

    wall_s: float
    monotonic_s: float


class ClusterClock:
    """The cluster's time; until the first measurement, this machine's own."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._measured_at: Moment | None = None
        self._cluster_s = 0.0

    def read(self) -> Moment:
        """This machine's own clocks now."""
        return Moment(self._clock.now().timestamp(), self._clock.monotonic_s())

    def now(self) -> datetime:
        """The cluster's time: what was measured last, plus the monotonic time that has passed since."""
        if self._measured_at is None:
            return self._clock.now()
        passed_s = self._clock.monotonic_s() - self._measured_at.monotonic_s
        return datetime.fromtimestamp(self._cluster_s, UTC) + timedelta(seconds=passed_s)

    def measure(self, before: Moment, cluster_ms: int) -> None:
        """Compare with the time that ZooKeeper gave a write which was sent after `before` and has been answered."""
        after, cluster_s = self.read(), cluster_ms / 1000
        self._require_small(max(before.wall_s - cluster_s, cluster_s - after.wall_s, 0.0), "ZooKeeper's")
        # The write happened somewhere between the two readings; their middle is off by half a round trip at most.
        half_s = (after.monotonic_s - before.monotonic_s) / 2
        self._measured_at, self._cluster_s = after, cluster_s + half_s

    def require_steady(self) -> None:
        """Raise if somebody has set this machine's clock since the last measurement."""
        if self._measured_at is None:
            return
        now = self.read()
        passed_s = now.monotonic_s - self._measured_at.monotonic_s
        shift_s = now.wall_s - self._measured_at.wall_s - passed_s
        self._require_small(abs(shift_s), "what it showed before")

    def _require_small(self, offset_s: float, other: str) -> None:
        if offset_s > self._limit_s:
            raise RunStoppedError(
                f"this machine's clock is {offset_s:.1f} s off {other}, the limit is {self._limit_s:.1f} s", _REMEDY
            )
