"""What the brokers carry after a run, as they report it themselves, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.model.figures import PoolFigures
from evenkeel.model.load import Resource
from evenkeel.model.plan import BrokerBalance
from evenkeel.model.plan_summary import RESOURCE_NAMES, name_pool

# A sentence about many brokers lists this many of them.
LISTED_BROKERS = 5


@dataclass(frozen=True, slots=True)
class BrokerCheck:
    """One resource of one broker: what it carried, what the plan predicted, and what it carries now."""

    broker_id: str
    resource: str
    limit: int
    before: int
    predicted: int
    realised: int | None
    band_limit: int = 0

    @property
    def is_above_band(self) -> bool:
        """Whether the measured load is above the end of the broker's band."""
        return self.realised is not None and 0 < self.band_limit < self.realised

    @property
    def error(self) -> float | None:
        """How far the prediction is off, as a share of the broker's limit."""
        if self.realised is None or self.limit == 0:
            return None
        return round((self.realised - self.predicted) / self.limit, 6)


def describe_measured_load(
    checks: Sequence[BrokerCheck], predicted: Sequence[BrokerBalance], pools: Sequence[PoolFigures]
) -> tuple[str, ...]:
    """Say, as measured, which brokers are inside their band, what the busiest carries, and why a broker stays high."""
    known = {row.broker_id for row in predicted}
    measured = [check for check in checks if check.realised is not None and check.limit]
    reported = {check.broker_id for check in checks if check.realised is not None}
    sentences = [*_describe_silence(sorted(known - reported)), *_describe_bands(measured)]
    if measured:
        busiest = max(measured, key=_share)
        sentences.append(f"The busiest broker is now {busiest.broker_id}, measured at {_of_limit(busiest)}.")
    return (*sentences, *_explain_lone_brokers(measured, predicted, pools))


def _describe_silence(silent: Sequence[str]) -> Iterator[str]:
    if silent:
        yield f"No load report since the run from {_list(silent)}: the load there is not known."


def _describe_bands(measured: Sequence[BrokerCheck]) -> Iterator[str]:
    """How many of the brokers that have a band are inside it; plans by hand have no bands."""
    banded = {check.broker_id for check in measured if check.band_limit}
    if not banded:
        return
    above: dict[str, BrokerCheck] = {}
    for check in measured:
        if check.is_above_band:
            worst = above.setdefault(check.broker_id, check)
            if _share(check) > _share(worst):
                above[check.broker_id] = check
    if not above:
        yield f"Every broker that has reported its load ({len(banded)}) is measured inside its band."
        return
    verb = "is measured above its band" if len(above) == 1 else "are measured above their bands"
    yield f"{len(above)} of the {len(banded)} brokers that have reported their load {verb}:"
    for name in sorted(above)[:LISTED_BROKERS]:
        check = above[name]
        yield (
            f"{name} is at {_of_limit(check)}, where its band ends at {_percent(check.band_limit / check.limit)}; "
            f"the plan predicted {_percent(check.predicted / check.limit)}."
        )
    if len(above) > LISTED_BROKERS:
        yield f"and {len(above) - LISTED_BROKERS} more."


def _explain_lone_brokers(
    measured: Sequence[BrokerCheck], predicted: Sequence[BrokerBalance], pools: Sequence[PoolFigures]
) -> Iterator[str]:
    """A broker in a pool of its own can be higher than all others, because nothing may move off it."""
    by_name = {pool.pool: pool for pool in pools}
    pool_of = {row.broker_id: row.pool for row in predicted}
    lone: Mapping[str, PoolFigures] = {
        broker: by_name[pool] for broker, pool in pool_of.items() if pool in by_name and by_name[pool].brokers == 1
    }
    highest_other = max((_share(check) for check in measured if check.broker_id not in lone), default=0.0)
    for name in sorted(lone):
        top = max((check for check in measured if check.broker_id == name), key=_share, default=None)
        if top is not None and _share(top) > highest_other:
            yield (
                f"{name} stays at {_of_limit(top)}: it is in a pool of its own ({name_pool(lone[name])}), so its "
                "bundles may go nowhere else."
            )


def _share(check: BrokerCheck) -> float:
    return (check.realised or 0) / check.limit if check.limit else 0.0


def _of_limit(check: BrokerCheck) -> str:
    return f"{_percent(_share(check))} of its {RESOURCE_NAMES[Resource(check.resource)]} limit"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _list(names: Sequence[str]) -> str:
    more = len(names) - LISTED_BROKERS
    return ", ".join(names[:LISTED_BROKERS]) + (f" and {more} more" if more > 0 else "")
