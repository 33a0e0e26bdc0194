"""One run: the writer meets a fault at its moment, is resumed, and its history is judged."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kazoo.exceptions import KazooException

from faults.broker_gate import watch_brokers
from faults.cases import Case
from faults.checker import find_violations
from faults.frames import RequestKind
from faults.history import History
from faults.kinds import CALLERS_END, CLOCK_SKEW, CLOCK_STEP, WINDOW_END
from faults.moments import Action, Script, Struck
from faults.proxy import open_proxies
from faults.scene import Scene, writer_settings
from faults.stage import RunningStage, Workshop
from support.waiting import scaled

FAULT_TIMEOUT_S = scaled(120.0)
SETTLE_TIMEOUT_S = scaled(20.0)
POLL_S = 0.05
PACE_S = 0.6
SHORT_WINDOW_S = (2.5, 4.5)
LONG_WINDOW_S = 3_600.0
UNHURRIED_SESSION_S = 10.0
SLACK_FOR_SKEW_S = 5.0
CLOCK_OFFSETS_S = (-3_600.0, -60.0, -7.0, -2.0, 2.0, 7.0, 60.0, 1_800.0)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a run; the whole of what is printed about it."""

    case: str
    """The run by its name; it runs again with `make faults CASE="…"`."""
    kind: str
    manager: str
    request: str | None
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


def run_case(case: Case, workshop: Workshop) -> Result:
    """Make a run."""
    started_s = time.monotonic()
    start_zxid = workshop.mark()
    with ExitStack() as stack:
        stage = _set_stage(case, workshop, stack)
        stage.script.action = _fire(stage, case)
        stage.prepared_zxid = workshop.mark()
        first, resumes = _play(stage, case)
        _wait_until_settled(stage)
        end_zxid = workshop.mark()
        transactions = [t for t in workshop.servers.read_history(start_zxid) if t.zxid <= end_zxid]
        history = History(transactions, stage.facts())
        violations = [str(violation) for violation in find_violations(history)] + stage.findings
        if violations and stage.last != "done":
            violations.append(f"told: after {resumes} resumptions {stage.last}")
    step_ms, recovery_ms = _measure(history, stage.fired_at_ms)
    return Result(
        case=str(case),
        kind=case.kind.name,
        manager=str(case.manager),
        request=case.request,
        moment="" if case.moment is None else str(case.moment),
        has_fired=stage.script.has_fired,
        first=first,
        resumes=resumes,
        seconds=round(time.monotonic() - started_s, 2),
        step_ms=step_ms,
        recovery_ms=recovery_ms,
        violations=violations,
    )


def count_requests(case: Case, workshop: Workshop) -> Counter[RequestKind]:
    """Make a run, and count what its first writer asked for."""
    with ExitStack() as stack:
        stage = _set_stage(case, workshop, stack)
        stage.finish(stage.start_first_writer())
        return stage.script.seen


def _set_stage(case: Case, workshop: Workshop, stack: ExitStack) -> RunningStage:
    """Start the fleet, plan, and draw what the case leaves open; the order of the draws is part of a case."""
    draw = random.Random(case.seed)
    name, servers, store = workshop.next_name(case.seed), workshop.servers, workshop.configuration
    scene = stack.enter_context(
        Scene(name, servers.hosts, workshop.operator, workshop.folder, case.manager, store.hosts if store else None)
    )
    is_short = case.kind.name in (WINDOW_END, CALLERS_END)
    window_s = draw.uniform(*SHORT_WINDOW_S) if is_short else LONG_WINDOW_S
    ends_at = datetime.now(UTC) + timedelta(seconds=window_s)
    expires_at = ends_at + timedelta(seconds=LONG_WINDOW_S if case.kind.name == CALLERS_END else 0.0)
    plan = scene.make_plan(expires_at, workshop.configuration_operator)
    script = Script(case.moment, pace_s=PACE_S if is_short else 0.0)
    proxies = open_proxies(servers.addresses, script)
    configuration_proxies = open_proxies(store.addresses, script, is_configuration=True) if store else []
    for proxy in (*proxies, *configuration_proxies):
        stack.callback(proxy.close)
    watch_brokers(scene.fleet, script, proxies)
    settings = writer_settings(session_expired_policy=draw.choice(("shutdown", "reconnect")))
    if is_short:
        # Held requests hold the session's heartbeats, too; and steps that are sent together would add up.
        settings = replace(settings, session_timeout_s=UNHURRIED_SESSION_S, in_flight_steps=1)
    stage = RunningStage(
        workshop, scene, plan, script, proxies, configuration_proxies, draw, settings, scene.switches()
    )
    if case.kind.name == CALLERS_END:
        stage.until = ends_at
    if case.kind.name == CLOCK_SKEW:
        stage.clock_skew_s = draw.choice(CLOCK_OFFSETS_S)
    if case.kind.name == CLOCK_STEP:
        stage.clock_step_s = draw.choice(CLOCK_OFFSETS_S)
    # The plan itself has expired with its window; nobody may go on with it.
    stage.must_finish = case.kind.name != WINDOW_END
    script.has_fired = case.moment is None
    return stage


def _fire(stage: RunningStage, case: Case) -> Action:
    def act(connection: Struck, bundle: str) -> None:
        stage.fired_at_ms = time.time() * 1000
        stage.is_over.clear()
        try:
            case.kind.act(stage, connection, bundle)
        except Exception as error:
            stage.findings.append(f"harness: the fault itself failed with {error!r}")
        finally:
            stage.is_over.set()

    return act


def _play(stage: RunningStage, case: Case) -> tuple[str, int]:
    """The first writer through the fault, then as many as it takes; answers how the first ended, and how many."""
    first = stage.finish(stage.start_first_writer())
    stage.script.end()
    if case.kind.clears_up and stage.scene.switches() != stage.switches_before:
        stage.findings.append(f"switches: the writer that ended so has left them off: {first}")
    # Servers that a fault took away must be back before anybody can resume.
    stage.is_over.wait(FAULT_TIMEOUT_S)
    for rival in stage.rivals:
        stage.finish(rival)
    if abs(stage.clock_skew_s) > SLACK_FOR_SKEW_S and first == "done":
        stage.findings.append(f"clock: a writer whose clock was {stage.clock_skew_s:g} s off has written")
    is_over = first == "done" and not stage.before_resuming
    return first, 0 if is_over else stage.resume()


def _wait_until_settled(stage: RunningStage) -> None:
    last_s = time.monotonic() + FAULT_TIMEOUT_S
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < min(deadline_s, last_s):
        try:
            if stage.scene.are_settled(stage.plan.steps, stage.disturbed):
                return
        except KazooException:
            # The operator's own connection is not back yet: nobody could look.
            deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
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


def to_json(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in Result.__dataclass_fields__}
