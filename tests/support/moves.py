"""Hand-made brokers and moves, so that order, budgets and waves can be tested without planning."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import count

from evenkeel.model.figures import PoolDiagnosis, PoolLimit
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.cluster_brokers import ClusterBroker, PooledMove
from evenkeel.planning.cluster.waves import Occupancy, Waves, cut_waves
from evenkeel.planning.explaining.refusals import PoolRefusals
from evenkeel.planning.pool.plan import BrokerLoad, Move, PoolPlan
from evenkeel.planning.problem.columns import Vector
from evenkeel.planning.search.bounds import PoolBounds

POOL = "pool"
PPB = 1_000_000_000
LIMIT = 1_000
_numbers = count()


def flat(load: int) -> Vector:
    """The same of each resource."""
    return load, load, load


def broker(
    name: str, used: int, band: int = 500, line: int = 850, topics: int = 0, domain: str = "default"
) -> ClusterBroker:
    """A broker of 1,000 units a resource, whose band and overload line end there."""
    return ClusterBroker(
        broker_id=name,
        pool=POOL,
        incarnation=1,
        domain=domain,
        limit=flat(LIMIT),
        band_limit=flat(band),
        balance_limit=flat(band),
        overload_limit=flat(line),
        peak_ppb=flat(band * PPB // LIMIT),
        used=flat(used),
        topics=topics,
        largest=((), (), ()),
    )


def move(
    way: str,
    load: int = 10,
    *,
    bundle: str = "",
    sessions: int = 10,
    client_ms: int = 1_000,
    topics: int = 1,
    group: str | None = None,
    benefit: int = 0,
    is_repair: bool = False,
    is_relief: bool = False,
) -> PooledMove:
    """A move by its way, such as "a>b"; the bundle has a name of its own unless given."""
    source, _, destination = way.partition(">")
    return PooledMove(
        pool=POOL,
        source=source,
        destination=destination,
        move=Move(
            bundle=bundle or f"t/ns/{next(_numbers):08}",
            source=0,
            destination=0,
            version_id=1,
            load=flat(load),
            topics=topics,
            sessions=sessions,
            group=group,
            leaves_forbidden_owner=is_repair,
            leaves_emptied_owner=False,
            leaves_overloaded_owner=is_relief,
            benefit_ppb=benefit,
            reason="the test says so",
        ),
        client_ms=client_ms,
    )


def by_name(*brokers: ClusterBroker) -> dict[str, ClusterBroker]:
    return {one.broker_id: one for one in brokers}


def cut(
    moves: Sequence[PooledMove],
    brokers: Sequence[ClusterBroker],
    settings: Settings,
    groups: Mapping[tuple[str, str], int] | None = None,
) -> Waves:
    return cut_waves(moves, Occupancy(by_name(*brokers), groups or {}, settings), settings)


NO_DIAGNOSIS = PoolDiagnosis(None, {}, limited_by=PoolLimit.NOTHING, advice=())


def pool_plan(brokers: Sequence[ClusterBroker], moves: Sequence[PooledMove] = (), **changes: object) -> PoolPlan:
    """A pool of these brokers with these moves, as the planner of a pool would hand it over."""
    places = {one.broker_id: place for place, one in enumerate(brokers)}
    made = PoolPlan(
        pool=POOL,
        brokers=tuple(
            BrokerLoad(
                broker_id=one.broker_id,
                incarnation=one.incarnation,
                domain=one.domain,
                is_member=True,
                limit=one.limit,
                band_limit=one.band_limit,
                overload_limit=one.overload_limit,
                used=one.used,
                topics=one.topics,
                largest=one.largest,
            )
            for one in brokers
        ),
        moves=tuple(
            dataclasses.replace(one.move, source=places[one.source], destination=places[one.destination])
            for one in moves
        ),
        refusals=PoolRefusals(),
        bounds=PoolBounds(len(moves), 0, flat(0), flat(0), brokers[0].peak_ppb if brokers else flat(0)),
        group_counts=(),
        misplaced=0,
        to_be_emptied=0,
        diagnosis=NO_DIAGNOSIS,
        bundles=10,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]
