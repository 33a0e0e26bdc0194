"""Judge an itinerary independently: replay it move by move and find every rule that it breaks.

It shares nothing with the planner but the arrays of the problem and the types of the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from evenkeel.model.load import RESOURCES
from evenkeel.model.settings import Settings
from evenkeel.planning.itinerary.restart_problem import RestartProblem
from evenkeel.planning.itinerary.results import Itinerary, Stage, StageMove

MOST_MOVES = 2


@dataclass(frozen=True, slots=True)
class ItineraryFault:
    """A rule that an itinerary breaks; place 0 is the itinerary as a whole."""

    rule: str
    place: int
    detail: str


def verify_itinerary(problem: RestartProblem, itinerary: Itinerary, settings: Settings) -> list[ItineraryFault]:
    """Find every fault of an itinerary; an empty list means that it may be carried out."""
    replay = _Replay(problem, settings)
    faults = list(_check_order(problem, itinerary))
    for stage in itinerary.stages:
        faults += replay.run(stage)
    faults += replay.find_restless()
    if itinerary.moves < itinerary.bound.moves:
        detail = f"{itinerary.moves} moves, where at least {itinerary.bound.moves} are said to be needed"
        faults.append(ItineraryFault("bound", 0, detail))
    if not itinerary.capacity.holds:
        faults.append(ItineraryFault("capacity", 0, "the proof of capacity does not hold"))
    if (untold := replay.name_overloaded()) != sorted(itinerary.overloaded_elsewhere):
        faults.append(ItineraryFault("overloaded-elsewhere", 0, f"above the overload line at the end: {untold}"))
    return faults


def _check_order(problem: RestartProblem, itinerary: Itinerary) -> Iterator[ItineraryFault]:
    wanted = [name for name, is_restarted in zip(problem.broker_ids, problem.is_restarted, strict=True) if is_restarted]
    if sorted(itinerary.broker_ids) != wanted:
        yield ItineraryFault("order", 0, "the stages do not restart each requested broker once")
    for place, stage in enumerate(itinerary.stages, start=1):
        if stage.place != place:
            yield ItineraryFault("order", place, f"the stage says that it is number {stage.place}")
        row = problem.broker_ids.index(stage.broker_id)
        if problem.place[row] not in (0, place):
            yield ItineraryFault("fixed-place", place, f"{stage.broker_id} has to be number {problem.place[row]}")


class _Replay:
    """The cluster in plain dictionaries, changed one move at a time."""

    def __init__(self, problem: RestartProblem, settings: Settings) -> None:
        self._problem = problem
        self._names = problem.broker_ids
        self._row = {str(name): row for row, name in enumerate(problem.bundles)}
        self._owner = {name: self._names[problem.owner[row]] for name, row in self._row.items()}
        self._moved: Counter[str] = Counter()
        self._topic_limit = settings.broker_max_topics
        line = Fraction(str(settings.broker_overloaded_threshold_percentage)) / 100
        self._line = {
            (name, resource): int(limit) * line
            for name, limits in zip(self._names, problem.limit.tolist(), strict=True)
            for resource, limit in enumerate(limits)
            if limit > 0
        }
        self._load: Counter[tuple[str, int]] = Counter()
        self._topics: Counter[str] = Counter()
        self._grouped: Counter[tuple[int, str]] = Counter()
        self._domains: Counter[tuple[int, int]] = Counter()
        for name, owner in self._owner.items():
            self._count(name, owner, 1)
        self._most_on_broker, self._most_in_domain = _peaks(self._grouped), _peaks(self._domains)
        # Brokers that the itinerary neither restarts nor fills may be as they are.
        self._touched = {name for name, is_in in zip(self._names, problem.is_restarted, strict=True) if is_in}

    def run(self, stage: Stage) -> Iterator[ItineraryFault]:
        """Apply a stage: every move is judged, then the state in which its broker is away."""
        for move in stage.moves:
            fault = self._find_impossible(stage, move)
            if fault is not None:
                yield fault
                continue
            yield from self._check_rules(stage, move)
            self._count(move.bundle, move.source, -1)
            self._count(move.bundle, move.destination, 1)
            self._owner[move.bundle] = move.destination
            self._moved[move.bundle] += 1
            self._touched.add(move.destination)
            yield from self._check_state(stage, move)
        left = [name for name, owner in self._owner.items() if owner == stage.broker_id and not self._is_system(name)]
        if left:
            yield ItineraryFault("not-empty", stage.place, f"{stage.broker_id} still owns {left[0]}")
        yield from self._find_overloaded(stage)

    def find_restless(self) -> Iterator[ItineraryFault]:
        """Find bundles that move more than twice."""
        for name, moves in sorted(self._moved.items()):
            if moves > MOST_MOVES:
                yield ItineraryFault("third-move", 0, f"{name} moves {moves} times")

    def name_overloaded(self) -> list[str]:
        """The brokers that are above the overload line now; an itinerary has to name those that it does not touch."""
        return sorted({name for (name, resource), line in self._line.items() if self._load[name, resource] > line})

    def _find_impossible(self, stage: Stage, move: StageMove) -> ItineraryFault | None:
        if move.bundle not in self._row:
            return ItineraryFault("unknown-bundle", stage.place, f"{move.bundle} is not in the snapshot")
        if move.destination not in self._names:
            return ItineraryFault("unknown-broker", stage.place, f"{move.destination} is not in the snapshot")
        if self._owner[move.bundle] != move.source or move.source != stage.broker_id:
            return ItineraryFault("wrong-owner", stage.place, f"{move.bundle} is not on {stage.broker_id}")
        return None

    def _check_rules(self, stage: Stage, move: StageMove) -> Iterator[ItineraryFault]:
        row = self._row[move.bundle]
        if not self._problem.is_movable[row]:
            yield ItineraryFault("fixed-bundle", stage.place, f"{move.bundle} may not move")
        may_receive = self._problem.receivers[self._problem.bundle_class[row], self._names.index(move.destination)]
        if not may_receive or move.destination == move.source:
            yield ItineraryFault("not-eligible", stage.place, f"{move.destination} may not receive {move.bundle}")
        if move.is_second != (self._moved[move.bundle] > 0):
            yield ItineraryFault("is-second", stage.place, f"{move.bundle} has moved {self._moved[move.bundle]} times")

    def _check_state(self, stage: Stage, move: StageMove) -> Iterator[ItineraryFault]:
        """Judge the destination after a move: nobody else has become fuller."""
        problem, name = self._problem, move.destination
        if self._topics[name] >= self._topic_limit:
            yield ItineraryFault("topic-limit", stage.place, f"{name} has {self._topics[name]} topics")
        group = int(problem.group[self._row[move.bundle]])
        domain = int(problem.domain[self._names.index(name)])
        if group >= 0 and self._grouped[group, name] > self._most_on_broker[group]:
            yield ItineraryFault("anti-affinity", stage.place, f"{name} is crowded by {move.bundle}")
        if group >= 0 and self._domains[group, domain] > self._most_in_domain[group]:
            yield ItineraryFault("anti-affinity", stage.place, f"the failure domain of {name} is crowded")
        yield from self._find_overloaded(stage)

    def _find_overloaded(self, stage: Stage) -> Iterator[ItineraryFault]:
        for (name, resource), line in self._line.items():
            if name in self._touched and self._load[name, resource] > line:
                detail = f"{name} carries {self._load[name, resource]} {RESOURCES[resource]}, the line is {float(line)}"
                yield ItineraryFault("overload", stage.place, detail)

    def _is_system(self, bundle: str) -> bool:
        return bool(self._problem.is_system[self._row[bundle]])

    def _count(self, bundle: str, broker: str, sign: int) -> None:
        problem, row = self._problem, self._row[bundle]
        for resource in range(len(RESOURCES)):
            self._load[broker, resource] += sign * int(problem.load[row, resource])
        self._topics[broker] += sign * int(problem.topics[row])
        group = int(problem.group[row])
        if group >= 0:
            self._grouped[group, broker] += sign
            self._domains[group, int(problem.domain[self._names.index(broker)])] += sign


def _peaks(counts: Counter[tuple[int, str]] | Counter[tuple[int, int]]) -> Counter[int]:
    peaks: Counter[int] = Counter()
    for (group, _), count in counts.items():
        peaks[group] = max(peaks[group], count)
    return peaks
