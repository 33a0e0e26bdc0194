"""Which run a seed stands for, and how many seeds cover everything: every kind of fault at every kind of request.

seed ──▶ kind of fault: each in turn
     ──▶ kind of request: each that the fault may strike at in turn, one round of kinds after the other
     ──▶ kind of cluster: each that makes such a request in turn
     ──▶ which of these requests, and where in it: by lot
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from evenkeel.model.snapshot import LoadManager
from faults.frames import RequestKind
from faults.kinds import BY_NAME, EXTENSIBLE, KINDS, REQUESTS, Kind
from faults.moments import ByteMoment, Moment, Phase

MOST_BYTES_TO_SERVER, MOST_BYTES_FROM_SERVER = 18_000, 30_000
"""About what a run of this size sends and receives."""
Pair = tuple[str, RequestKind]
"""A kind of fault by its name, and the kind of request that it strikes at."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a fault, where it strikes, the kind of cluster, and a seed for everything else."""

    kind: Kind
    manager: LoadManager
    moment: Moment | ByteMoment | None
    seed: int = 0

    @property
    def request(self) -> RequestKind | None:
        return self.moment.kind if isinstance(self.moment, Moment) else None

    @property
    def has_own_store(self) -> bool:
        """Whether the cluster's policies are in a configuration store of their own."""
        return self.request is RequestKind.READ_CONFIGURATION_STORE

    def __str__(self) -> str:
        moment = self.moment
        place = f"{moment.phase}, {moment.kind}, {moment.number}" if isinstance(moment, Moment) else "-"
        return str(self.seed) if self.is_of_its_seed else f"{self.kind.name} | {self.manager} | {place} | {self.seed}"

    @property
    def is_of_its_seed(self) -> bool:
        """Whether the seed alone says it all."""
        return self == case_of(self.seed)


def parse_case(text: str) -> Case:
    """A run by its name: `fault | kind of cluster | phase, request, number | seed`; or by its seed alone."""
    if text.strip().isdecimal():
        return case_of(int(text))
    name, manager, place, seed = (part.strip() for part in text.split("|"))
    moment = None
    if place != "-":
        phase, request, number = (part.strip() for part in place.split(","))
        moment = Moment(RequestKind(request), int(number), Phase(phase))
    return Case(BY_NAME[name], LoadManager(manager), moment, int(seed))


def case_of(seed: int) -> Case:
    """The run that a seed stands for."""
    place, turn, draw = seed % len(KINDS), seed // len(KINDS), random.Random(seed)
    kind = KINDS[place]
    if kind.is_at_byte:
        is_to_server = draw.random() < 0.5
        most = MOST_BYTES_TO_SERVER if is_to_server else MOST_BYTES_FROM_SERVER
        manager = kind.managers[turn % len(kind.managers)]
        return Case(kind, manager, ByteMoment(draw.randrange(most), is_to_server), seed)
    targets = targets_of(kind)
    if not targets:
        return Case(kind, kind.managers[turn % len(kind.managers)], None, seed)
    request = targets[turn % len(targets)]
    managers = kind.managers_at(request)
    # Each round begins with another kind of cluster, and so does each kind of fault.
    manager = managers[(place + turn + turn // len(targets)) % len(managers)]
    number = draw.randint(1, REQUESTS[manager][request])
    return Case(kind, manager, Moment(request, number, draw.choice(kind.phases_at(request))), seed)


def targets_of(kind: Kind) -> tuple[RequestKind, ...]:
    """The requests that a kind can strike at: those that a writer makes on the kinds of cluster that it is for.

    Runs on an ensemble have no configuration store beside it.
    """
    requests = tuple(request for request in kind.at if kind.managers_at(request))
    return tuple(r for r in requests if not (kind.needs_ensemble and r is RequestKind.READ_CONFIGURATION_STORE))


def all_pairs() -> Iterator[Pair]:
    """Every kind of fault with every kind of request at which it may strike."""
    for kind in KINDS:
        yield from ((kind.name, request) for request in targets_of(kind))


def core_pairs() -> Iterator[Pair]:
    """The pairs that every run of the tests must strike."""
    for kind in KINDS:
        yield from ((kind.name, request) for request in targets_of(kind) if request in kind.core)


def seeds_for(pairs: Iterable[Pair]) -> list[int]:
    """The first seeds that strike at all pairs, and one of each kind that is not tied to a request."""
    wanted: set[tuple[str, RequestKind | None]] = {*pairs, *((kind.name, None) for kind in KINDS if not kind.at)}
    found = []
    for seed in count():
        if not wanted:
            return found
        case = case_of(seed)
        if (case.kind.name, case.request) in wanted:
            wanted.remove((case.kind.name, case.request))
            found.append(seed)
    raise AssertionError("seeds do not end")


def plain_case(manager: LoadManager = EXTENSIBLE) -> Case:
    """A run that nothing happens to."""
    return Case(KINDS[0], manager, None)
