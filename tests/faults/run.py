"""One run: a seed draws a fault and its moment; the writer meets it, is resumed, and its history is judged."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kazoo.exceptions import KazooException

from evenkeel.fleet.settings import LoadManagerKind
from faults.checker import find_violations
from faults.history import History
from faults.kinds import CALLERS_END, CLOCK_SKEW, CLOCK_SKEWS_S, NO_FAULT, WINDOW_END, Kind, kind_of
from faults.proxy import ByteMoment, Connection, Moment, Script, open_proxies
from faults.scene import Scene, writer_settings
from faults.stage import RunningStage, Workshop

FAULT_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 20.0
POLL_S = 0.05
MODULAR_SHARE = 0.25
PACE_S = 0.6
SHORT_WINDOW_S = (2.5, 4.5)
LONG_WINDOW_S = 3_600.0
UNHURRIED_SESSION_S = 10.0
SLACK_FOR_SKEW_S = 5.0


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a run; the whole of what is printed about it."""

    seed: int
    kind: str
    manager: str
    moment: str
    has_fired: bool
    first: str
    resumes: int
    seconds: float
    step_ms: float | None
    recovery_ms: float | None
    violations: list[str]

    @property
    def recovery_steps(self) -> float | None:
        """Recovery in step times."""
        return self.recovery_ms / self.step_ms if self.recovery_ms is not None and self.step_ms else None


def run_seed(seed: int, workshop: Workshop) -> Result:
    """Make the run that a seed stands for."""
    started_s = time.monotonic()
    kind, draw = kind_of(seed), random.Random(seed)
    start_zxid = workshop.mark()
    with ExitStack() as stack:
        stage = _set_stage(seed, kind, draw, workshop, stack)
        stage.script.action = _fire(stage, kind)
        stage.prepared_zxid = workshop.mark()
        first, resumes = _play(stage, kind)
        _wait_until_settled(stage)
        end_zxid = workshop.mark()
        transactions = [t for t in workshop.servers.read_history(start_zxid) if t.zxid <= end_zxid]
        history = History(transactions, stage.facts())
        violations = [str(violation) for violation in find_violations(history)] + stage.findings
        if violations and stage.last != "done":
            violations.append(f"told: after {resumes} resumptions {stage.last}")
    step_ms, recovery_ms = _measure(history, stage.fired_at_ms)
    return Result(
        seed=seed,
        kind=kind.name,
        manager=stage.scene.kind.value,
        moment=_tell_moment(stage.script.moment),
        has_fired=stage.script.has_fired,
        first=first,
        resumes=resumes,
        seconds=round(time.monotonic() - started_s, 2),
        step_ms=step_ms,
        recovery_ms=recovery_ms,
        violations=violations,
    )


def _set_stage(seed: int, kind: Kind, draw: random.Random, workshop: Workshop, stack: ExitStack) -> RunningStage:
    """Draw everything that a seed decides, start the fleet, and plan; the order of the draws is part of a seed."""
    manager = LoadManagerKind.EXTENSIBLE
    if kind.may_be_modular and draw.random() < MODULAR_SHARE:
        manager = LoadManagerKind.MODULAR
    moment = kind.draw_moment(draw)
    name, servers = workshop.next_name(seed), workshop.servers
    scene = stack.enter_context(Scene(name, servers.hosts, workshop.operator, workshop.folder, manager))
    is_short = kind.name in (WINDOW_END, CALLERS_END)
    window_s = draw.uniform(*SHORT_WINDOW_S) if is_short else LONG_WINDOW_S
    ends_at = datetime.now(UTC) + timedelta(seconds=window_s)
    plan = scene.make_plan(ends_at + timedelta(seconds=LONG_WINDOW_S if kind.name == CALLERS_END else 0.0))
    script = Script(moment, pace_s=PACE_S if is_short else 0.0)
    proxies = open_proxies(servers.addresses, script)
    for proxy in proxies:
        stack.callback(proxy.close)
    settings = writer_settings(session_expired_policy=draw.choice(("shutdown", "reconnect")))
    if is_short:
        # Held requests hold the session's heartbeats, too; and steps that are sent together would add up.
        settings = replace(settings, session_timeout_s=UNHURRIED_SESSION_S, in_flight_steps=1)
    until = ends_at if kind.name == CALLERS_END else None
    return RunningStage(workshop, scene, plan, script, proxies, draw, settings, scene.switches(), until)


def _fire(stage: RunningStage, kind: Kind) -> Callable[[Connection, str], None]:
    def act(connection: Connection, bundle: str) -> None:
        stage.fired_at_ms = time.time() * 1000
        stage.is_over.clear()
        try:
            kind.act(stage, connection, bundle)
        except Exception as error:
            stage.findings.append(f"harness: the fault itself failed with {error!r}")
        finally:
            stage.is_over.set()

    return act


def _play(stage: RunningStage, kind: Kind) -> tuple[str, int]:
    """The first writer through the fault, then as many as it takes; answers how the first ended, and how many."""
    skew_s = 0.0
    if kind.name == CLOCK_SKEW:
        skew_s = stage.draw.choice(CLOCK_SKEWS_S)
        stage.script.has_fired = True
    if kind.name in (WINDOW_END, CALLERS_END, NO_FAULT):
        stage.script.has_fired = True
        # The plan itself has expired with its window; nobody may go on with it.
        stage.must_finish = kind.name != WINDOW_END
    stage.first_writer = stage.start_writer(stage.proxied, skew_s, stage.until)
    first = stage.finish(stage.first_writer)
    if kind.clears_up and stage.scene.switches() != stage.switches_before:
        stage.findings.append(f"switches: the writer that ended so has left them off: {first}")
    # Servers that a fault took away must be back before anybody can resume.
    stage.is_over.wait(FAULT_TIMEOUT_S)
    for rival in stage.rivals:
        stage.finish(rival)
    if abs(skew_s) > SLACK_FOR_SKEW_S and first == "done":
        stage.findings.append(f"clock: a writer whose clock was {skew_s:g} s off has written")
    is_over = first == "done" and not stage.before_resuming
    return first, 0 if is_over else stage.resume()


def _wait_until_settled(stage: RunningStage) -> None:
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        with suppress(KazooException):
            if stage.scene.are_settled(stage.plan.steps):
                return
        time.sleep(POLL_S)
    stage.findings.append(f"unsettled: a bundle was still in flight {SETTLE_TIMEOUT_S:g} s after the run")


def _measure(history: History, fired_at_ms: float | None) -> tuple[float | None, float | None]:
    """The time that a step takes, and from the fault until a step was journalled as settled again."""
    times = [
        landing.transaction.time_ms - begin.transaction.time_ms
        for begin in history.begins
        if (landing := history.landing_of(begin)) is not None
    ]
    step_ms = statistics.median(times) if times else None
    settled = [e.transaction.time_ms for e in history.entries if e.state == "settled"]
    after = [at_ms for at_ms in settled if fired_at_ms is not None and at_ms >= fired_at_ms]
    return step_ms, (min(after) - fired_at_ms if after and fired_at_ms is not None else None)


def _tell_moment(moment: Moment | ByteMoment | None) -> str:
    return "" if moment is None else str(moment)


def to_json(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in Result.__dataclass_fields__}
