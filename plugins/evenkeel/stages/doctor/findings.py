"""What a probe found, and how probes are run: side by side, each with a deadline, none hiding another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evenkeel.model.errors import EvenkeelError


class Health(StrEnum):
    """How much a finding matters: nothing to do, look at it, or something will not work."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; what is not ok says what to do."""

    area: str
    check: str
    health: Health
    told: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if (self.health is Health.OK) == bool(self.remedy):
            raise ValueError(f"{self.check}: a remedy belongs to what is not ok, and to nothing else")

    def to_json(self) -> dict[str, str]:
        return {
            "area": self.area,
            "check": self.check,
            "status": self.health.value,
            "told": self.told,
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class Told:
    """What a probe returns; the runner adds the area."""

    check: str
    health: Health
    told: str
    remedy: str = ""


def ok(check: str, told: str) -> Told:
    return Told(check, Health.OK, told)


def warning(check: str, told: str, remedy: str) -> Told:
    return Told(check, Health.WARNING, told, remedy)


def problem(check: str, told: str, remedy: str) -> Told:
    return Told(check, Health.PROBLEM, told, remedy)


@dataclass(frozen=True, slots=True)
class Probe:
    """A function that looks at one thing; `needs` names probes whose problems would only be repeated here."""

    area: str
    name: str
    look: Callable[[], Iterable[Told]]
    needs: tuple[str, ...] = ()
    time_factor: float = 1.0
    """How many times the usual deadline it may take."""


def run_probes(probes: Sequence[Probe], deadline_s: float) -> list[Finding]:
    """Run all probes side by side, those that need others after them; the findings are in the order of the probes."""
    results: dict[str, list[Finding]] = {}
    waiting = list(probes)
    known = {probe.name for probe in probes}
    while waiting:
        ready = [probe for probe in waiting if all(name in results for name in probe.needs if name in known)]
        waiting = [probe for probe in waiting if probe not in ready]
        blocked = {probe.name: _find_blocker(probe, results) for probe in ready}
        results |= {name: [_not_checked(probe, blocker)] for probe in ready if (blocker := blocked[name := probe.name])}
        results |= _run_together([probe for probe in ready if not blocked[probe.name]], deadline_s)
    return [finding for probe in probes for finding in results[probe.name]]


def _find_blocker(probe: Probe, results: Mapping[str, Sequence[Finding]]) -> str:
    found = (n for n in probe.needs if any(f.health is Health.PROBLEM for f in results.get(n, ())))
    return next(found, "")


def _not_checked(probe: Probe, blocker: str) -> Finding:
    return Finding(probe.area, probe.name, Health.WARNING, "not checked", f"resolve the problem of {blocker!r} first")


def _run_together(probes: Sequence[Probe], deadline_s: float) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}

    def run(probe: Probe) -> None:
        # Assigned only when complete, so that a late probe never mixes with its time-out.
        found[probe.name] = _look(probe)

    began_s = time.monotonic()
    threads = {probe.name: threading.Thread(target=run, args=(probe,), daemon=True) for probe in probes}
    for thread in threads.values():
        thread.start()
    results = {}
    for probe in probes:
        ends_s = began_s + deadline_s * probe.time_factor
        threads[probe.name].join(max(ends_s - time.monotonic(), 0.0))
        late = f"no result within {deadline_s * probe.time_factor:g} s"
        remedy = "check what hangs, or give more time with --deadline"
        results[probe.name] = found.get(probe.name) or [Finding(probe.area, probe.name, Health.PROBLEM, late, remedy)]
    return results


def _look(probe: Probe) -> list[Finding]:
    told: list[Told] = []
    try:
        # One by one, so that what was found before an error is kept.
        for each in probe.look():
            told.append(each)
    except EvenkeelError as error:
        told.append(problem(probe.name, error.cause, error.remedy))
    except Exception as error:
        # One probe that breaks must not take the others with it.
        told.append(problem(probe.name, f"the probe itself failed ({type(error).__name__}: {error})", "report this"))
    return [Finding(probe.area, each.check, each.health, each.told, each.remedy) for each in told]
