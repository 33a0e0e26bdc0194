"""What the planner of a rolling restart returns: an itinerary with its proofs, or the reasons why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evenkeel.model.errors import InputError, RefusedError

SHOWN_REFUSALS = 3


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """The brokers to restart, and the places in the order, from 1, that some of them must have.

    Without brokers, all registered ones are restarted, except those that the settings leave alone. Brokers that only
    `places` names are restarted too.
    """

    broker_ids: tuple[str, ...] | None = None
    places: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = self.broker_ids
        if named is not None and not named:
            raise InputError("no broker to restart is named", "name at least one, or leave the list out for all")
        if named is not None and len(set(named)) < len(named):
            twice = next(name for name in named if named.count(name) > 1)
            raise InputError(f"{twice} is named twice", "name every broker once")
        for name, place in sorted(self.places.items()):
            if place < 1:
                raise InputError(f"place {place} of {name} is not in the order", "count places from 1")
        if len(set(self.places.values())) < len(self.places):
            raise InputError("two brokers have the same place in the order", "give every broker a place of its own")


@dataclass(frozen=True, slots=True)
class StageMove:
    """One bundle leaves the broker of a stage. `is_second` tells that it has moved in an earlier stage already."""

    bundle: str
    source: str
    destination: str
    is_second: bool


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest share of a limit that any broker reaches in a stage; the resource is "" if no limit is known."""

    broker_id: str
    resource: str
    load: int
    limit: int

    @property
    def share(self) -> float:
        return self.load / self.limit if self.limit else 0.0


@dataclass(frozen=True, slots=True)
class Stage:
    """The restart of one broker: once the moves are done it is empty, and after the restart it may receive again.

    The moves only leave this broker, so they may be applied in any order and in any number of waves: no state on the
    way is fuller than the last one, which `peak` describes.
    """

    place: int
    broker_id: str
    moves: tuple[StageMove, ...]
    peak: Peak


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """What the rest of a pool must carry of one resource while a broker is away, in whole units of the resource.

    `load` is the load that can be nowhere but on the brokers `others` then, and `limit` the sum of their limits. Of all
    such sets of brokers that were examined, this is the one with the least room.
    """

    broker_id: str
    pool: str
    resource: str
    others: tuple[str, ...]
    load: int
    limit: int
    line_load: int

    @property
    def holds(self) -> bool:
        """Whether the others can carry the load without exceeding the overload line, if it is divided well."""
        return self.load <= self.line_load

    @property
    def share(self) -> float:
        return self.load / self.limit if self.limit else 0.0


@dataclass(frozen=True, slots=True)
class CapacityProof:
    """N+1 capacity: one row per restarted broker and resource. A resource without known limits has no row."""

    line_percent: float
    rows: tuple[CapacityRow, ...]

    @property
    def holds(self) -> bool:
        return all(row.holds for row in self.rows)


@dataclass(frozen=True, slots=True)
class MoveBound:
    """A number of moves below which no itinerary for the same brokers gets.

    `departures` are the bundles on the brokers to restart: each moves at least once. `second_moves` are those that at
    least have to move again, whatever the order.
    """

    departures: int
    second_moves: int

    @property
    def moves(self) -> int:
        return self.departures + self.second_moves


@dataclass(frozen=True, slots=True)
class Itinerary:
    """The stages in order, the proof that the capacity suffices, and the fewest moves that any itinerary needs.

    `overloaded_elsewhere` are brokers that were above the overload line before, and that the itinerary cannot change:
    they belong to pools that it does not touch.
    """

    stages: tuple[Stage, ...]
    capacity: CapacityProof
    bound: MoveBound
    overloaded_elsewhere: tuple[str, ...] = ()

    @property
    def broker_ids(self) -> tuple[str, ...]:
        return tuple(stage.broker_id for stage in self.stages)

    @property
    def moves(self) -> int:
        return sum(len(stage.moves) for stage in self.stages)

    @property
    def ratio(self) -> float:
        """The moves over the bound; 1 is the provable minimum."""
        return self.moves / self.bound.moves if self.bound.moves else 1.0


class RefusalKind(StrEnum):
    """Why a broker cannot be restarted by an itinerary."""

    NOT_REGISTERED = "not-registered"
    NO_REPORT = "no-load-report"
    LEFT_ALONE = "left-alone"
    FIXED_BUNDLES = "fixed-bundles"
    NO_OTHER_BROKER = "no-other-broker"
    OVERLOADED = "overloaded"
    CAPACITY = "capacity"
    ANTI_AFFINITY = "anti-affinity"
    NO_PLACEMENT = "no-placement"


@dataclass(frozen=True, slots=True)
class BrokerRefusal:
    """Why one broker stands in the way. All kinds but `NO_PLACEMENT` hold for every order of the brokers."""

    broker_id: str
    kind: RefusalKind
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class RefusedItinerary:
    """There is no itinerary: every broker that stands in the way, sorted by name, and the capacity if it was judged."""

    refusals: tuple[BrokerRefusal, ...]
    capacity: CapacityProof | None = None

    def error(self) -> RefusedError:
        """The refusal as one error, for callers that can only raise."""
        shown = "; ".join(refusal.reason for refusal in self.refusals[:SHOWN_REFUSALS])
        more = len(self.refusals) - SHOWN_REFUSALS
        rest = f"; and {more} more" if more > 0 else ""
        return RefusedError(f"no rolling restart is possible: {shown}{rest}", self.refusals[0].remedy)
