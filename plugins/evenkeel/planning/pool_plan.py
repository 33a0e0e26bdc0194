"""What the planner decided for one pool, in a form that crosses process borders and can be added up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from evenkeel.model.plan import Rejection

Vector = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Move:
    """One bundle's move; `source` and `destination` are places in the pool plan's list of brokers.

    `after_split_of` is the bundle that has to be split first, where the move is one of its children's.
    """

    bundle: str
    source: int
    destination: int
    version_id: int | None
    load: Vector
    topics: int
    sessions: int
    group: str | None
    leaves_forbidden_owner: bool
    leaves_emptied_owner: bool
    leaves_overloaded_owner: bool
    benefit_ppb: int
    reason: str
    after_split_of: str | None = None

    @property
    def is_repair(self) -> bool:
        """Whether the owner could not keep the bundle."""
        return self.leaves_forbidden_owner or self.leaves_emptied_owner


@dataclass(frozen=True, slots=True)
class SplitMove:
    """One bundle's split; `source` is the place of its owner in the pool plan's list of brokers.

    The lowest rank is the most urgent. `is_only_for_moves` tells a split that gains nothing unless a child moves.
    """

    bundle: str
    source: int
    version_id: int | None
    boundary: int
    children: tuple[str, str]
    rank: int
    is_only_for_moves: bool
    reason: str


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """A broker as one pool sees it: what the pool's own bundles put on it, and where its band ends.

    Loads and topics of the same broker in several pools add up. Only the pool that the broker belongs to knows its
    band. `largest` are, per resource, the loads of the largest bundles, as many as cover what lies above the band.
    `balance_limit` is how far moves for balance may fill it, where that is not the end of the band.
    """

    broker_id: str
    incarnation: int | None
    domain: str
    is_member: bool
    limit: Vector
    band_limit: Vector
    overload_limit: Vector
    used: Vector
    topics: int
    largest: tuple[tuple[int, ...], ...] = ((), (), ())
    balance_limit: Vector | None = None


@dataclass(frozen=True, slots=True)
class PoolBounds:
    """Lower bounds for any plan of the pool, as integers that add up over pools."""

    moves: int
    sessions: int
    moved_load: Vector
    total_load: Vector
    peak_ppb: Vector


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many bundles of an anti-affinity group a broker owns before the plan, of those in this pool."""

    group: str
    broker: int
    bundles: int


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The moves of one pool with reasons, what was refused, the bounds, and the rules that were broken before.

    `summary` is what the plan's row about this pool says beyond its counts; `truncated` is set where a clock ended
    the search.
    """

    pool: str
    brokers: tuple[BrokerLoad, ...]
    moves: tuple[Move, ...]
    rejections: tuple[Rejection, ...]
    bounds: PoolBounds
    group_counts: tuple[GroupCount, ...]
    misplaced: int
    to_be_emptied: int
    bundles: int = 0
    summary: Mapping[str, Any] = field(default_factory=dict)
    truncated: bool = False
    splits: tuple[SplitMove, ...] = ()

    def to_json(self) -> str:
        """A compact JSON text, the form in which an executor hands a pool's plan back."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> PoolPlan:
        fields: dict[str, Any] = json.loads(text)
        return cls(
            pool=fields["pool"],
            brokers=tuple(_broker_load(row) for row in fields["brokers"]),
            moves=tuple(_with_vectors(Move, row) for row in fields["moves"]),
            rejections=tuple(Rejection(**row) for row in fields["rejections"]),
            bounds=_with_vectors(PoolBounds, fields["bounds"]),
            group_counts=tuple(GroupCount(**row) for row in fields["group_counts"]),
            misplaced=fields["misplaced"],
            to_be_emptied=fields["to_be_emptied"],
            bundles=fields["bundles"],
            summary=fields["summary"],
            truncated=fields["truncated"],
            splits=tuple(SplitMove(**row | {"children": tuple(row["children"])}) for row in fields["splits"]),
        )


def vector(values: Any) -> Vector:
    """Three plain integers, one a resource."""
    first, second, third = (int(value) for value in values)
    return first, second, third


def _broker_load(row: dict[str, Any]) -> BrokerLoad:
    largest = tuple(tuple(loads) for loads in row.pop("largest"))
    load: BrokerLoad = _with_vectors(BrokerLoad, row)
    return replace(load, largest=largest)


def _with_vectors(kind: Any, fields: dict[str, Any]) -> Any:
    return kind(**{name: vector(value) if isinstance(value, list) else value for name, value in fields.items()})
