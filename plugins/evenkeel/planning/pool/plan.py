"""The plan of one pool, in a form that crosses process boundaries and can be added up over pools."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from evenkeel.model.figures import PoolDiagnosis
from evenkeel.model.outside_json import read_record
from evenkeel.model.plan import Rejection
from evenkeel.planning.explaining.bundle_ranks import Grounds
from evenkeel.planning.explaining.refusals import STAYS_HOT, PoolRefusals, StaysHot
from evenkeel.planning.problem.columns import Vector, vector
from evenkeel.planning.search.bounds import PoolBounds


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one bundle; `source` and `destination` are indices into the pool plan's brokers.

    `grounds` are what its reason is made of once the whole plan is known; a move without them brings its `reason`.
    If the bundle is a child of a split, `after_split_of` is the parent, which has to be split first.
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
    reason: str = ""
    grounds: Grounds | None = None
    after_split_of: str | None = None

    @property
    def is_repair(self) -> bool:
        """Whether the owner may not keep the bundle."""
        return self.leaves_forbidden_owner or self.leaves_emptied_owner


@dataclass(frozen=True, slots=True)
class SplitMove:
    """The split of one bundle; `source` is the index of its owner in the pool plan's brokers.

    The lowest rank is the most urgent. `is_only_for_moves` marks a split that gains nothing unless a child moves.
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
    """A broker from the view of one pool: the load of the pool's own bundles on it, and where its band ends.

    Loads and topics of the same broker in several pools add up. Only the pool that the broker belongs to knows its
    band. `largest` lists, per resource, the largest bundle loads, as many as cover the excess over the band.
    `balance_limit` is how far moves for balance may fill the broker, if that is not the end of the band. A broker that
    `is_emptied` takes no part in balancing.
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
    is_emptied: bool = False


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many bundles of an anti-affinity group a broker owns before the plan, of those in this pool."""

    group: str
    broker: int
    bundles: int


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The moves of one pool with their grounds, rejections, bounds, and how many rules were broken before the plan.

    `diagnosis` holds if all moves are kept. `receivers` are the brokers that may receive the
    bundles of each class that a move's grounds name. `stays_hot` says why a broker that is above its band in the end
    could not be brought lower. `truncated` is set if a deadline cut the search short.
    """

    pool: str
    brokers: tuple[BrokerLoad, ...]
    moves: tuple[Move, ...]
    refusals: PoolRefusals
    bounds: PoolBounds
    group_counts: tuple[GroupCount, ...]
    misplaced: int
    to_be_emptied: int
    diagnosis: PoolDiagnosis
    bundles: int = 0
    truncated: bool = False
    splits: tuple[SplitMove, ...] = ()
    receivers: tuple[tuple[int, ...], ...] = ()
    stays_hot: StaysHot = STAYS_HOT

    def to_json(self) -> str:
        """Encode as compact JSON, the form in which an executor returns a pool's plan."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> PoolPlan:
        fields: dict[str, Any] = json.loads(text)
        return cls(
            pool=fields["pool"],
            brokers=tuple(_broker_load(row) for row in fields["brokers"]),
            moves=tuple(_move(row) for row in fields["moves"]),
            refusals=PoolRefusals(
                **{when: tuple(Rejection(**row) for row in rows) for when, rows in fields["refusals"].items()}
            ),
            bounds=_with_vectors(PoolBounds, fields["bounds"]),
            group_counts=tuple(GroupCount(**row) for row in fields["group_counts"]),
            misplaced=fields["misplaced"],
            to_be_emptied=fields["to_be_emptied"],
            bundles=fields["bundles"],
            diagnosis=read_record(PoolDiagnosis, fields["diagnosis"]),
            truncated=fields["truncated"],
            splits=tuple(SplitMove(**row | {"children": tuple(row["children"])}) for row in fields["splits"]),
            receivers=tuple(map(tuple, fields["receivers"])),
            stays_hot=StaysHot(*fields["stays_hot"]),
        )


def _move(row: dict[str, Any]) -> Move:
    grounds = row.pop("grounds")
    move: Move = _with_vectors(Move, row)
    return move if grounds is None else replace(move, grounds=Grounds(**grounds))


def _broker_load(row: dict[str, Any]) -> BrokerLoad:
    largest = tuple(tuple(loads) for loads in row.pop("largest"))
    load: BrokerLoad = _with_vectors(BrokerLoad, row)
    return replace(load, largest=largest)


def _with_vectors(kind: Any, fields: dict[str, Any]) -> Any:
    return kind(**{name: vector(value) if isinstance(value, list) else value for name, value in fields.items()})
