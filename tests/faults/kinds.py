"""The kinds of faults: at which requests each may strike, on which kinds of cluster, and what may be left undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evenkeel.model.snapshot import LoadManager
from faults import acts
from faults.acts import Act
from faults.frames import HTTP_REQUESTS, RequestKind
from faults.moments import Phase

EXTENSIBLE, MODULAR, SYSTEM_TOPIC = LoadManager.EXTENSIBLE, LoadManager.MODULAR, LoadManager.EXTENSIBLE_SYSTEM_TOPIC
ALL_MANAGERS = (EXTENSIBLE, MODULAR, SYSTEM_TOPIC)
R = RequestKind
ANYWHERE = tuple(kind for kind in RequestKind if kind is not R.OTHER)
FENCED = (R.OPEN, R.PAUSE, R.STEP, R.INTENT, R.CONCLUDE, R.CLOSE, R.RELEASE)
"""The transactions that check the fence."""
WRITES = (R.REHEARSAL, R.ACQUIRE, *FENCED)
BEGINNINGS = (R.STEP, R.INTENT)
IN_A_RUN = tuple(kind for kind in ANYWHERE if kind not in (R.CLOSE, R.RELEASE))
"""Requests after which something is still to be done."""

_SHARED: Mapping[RequestKind, int] = {
    R.CONNECT: 1,
    R.READ_BROKERS: 20,
    R.READ_BY_HTTP: 4,
    R.READ_JOURNAL: 8,
    R.REHEARSAL: 1,
    R.FOLDER: 6,
    R.READ_FENCE: 6,
    R.ACQUIRE: 1,
    R.OPEN: 1,
    R.READ_POLICIES: 8,
    R.READ_CONFIGURATION_STORE: 3,
    R.READ_STOP: 2,
    R.PAUSE: 1,
    R.READ_DRAINING: 4,
    R.CONCLUDE: 3,
    R.READ_LEADER: 4,
    R.CLOSE: 1,
    R.RELEASE: 1,
}
REQUESTS: Mapping[LoadManager, Mapping[RequestKind, int]] = {
    EXTENSIBLE: {**_SHARED, R.READ_BUNDLE: 40, R.STEP: 8, R.CONCLUDE: 4},
    MODULAR: {**_SHARED, R.READ_BUNDLE: 24, R.INTENT: 8, R.ADMIN_CALL: 8, R.LOOK_UP: 6, R.READ_FENCE: 20},
    SYSTEM_TOPIC: {**_SHARED, R.READ_BY_HTTP: 40, R.INTENT: 8, R.ADMIN_CALL: 8, R.READ_FENCE: 16},
}
"""How many requests of a kind an undisturbed run makes at the least; a fault aims at one of these."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault."""

    name: str
    act: Act = acts.nothing
    at: tuple[RequestKind, ...] = ANYWHERE
    """The requests that it may strike at; none where it is not tied to one."""
    core: tuple[RequestKind, ...] = BEGINNINGS
    """The requests at which every run of the tests must have struck with it."""
    phases: tuple[Phase, ...] = tuple(Phase)
    managers: tuple[LoadManager, ...] = ALL_MANAGERS
    needs_ensemble: bool = False
    is_at_byte: bool = False
    clears_up: bool = False
    """Whether a writer that this happens to must itself put Pulsar's switches back before it ends."""

    def phases_at(self, request: RequestKind) -> tuple[Phase, ...]:
        """Where in a request it may strike; a request to a broker is not cut in halves."""
        return tuple(p for p in self.phases if p is not Phase.INSIDE or request not in HTTP_REQUESTS)

    def managers_at(self, request: RequestKind) -> tuple[LoadManager, ...]:
        """The kinds of cluster on which a writer makes such a request."""
        return tuple(manager for manager in self.managers if request in REQUESTS[manager])


NO_FAULT, CLOCK_SKEW, CLOCK_STEP = "no fault", "clock skew", "clock step"
WINDOW_END, CALLERS_END = "window end", "end by the caller"
CRASH_POINTS = (R.CONNECT, *WRITES, R.ADMIN_CALL)
BEFORE_ONLY = (Phase.BEFORE,)
KINDS = (
    Kind(NO_FAULT, at=(), core=()),
    Kind("SIGKILL", acts.kill, core=(*CRASH_POINTS, R.LOOK_UP)),
    Kind("SIGTERM", acts.terminate, core=(*BEGINNINGS, R.CLOSE), clears_up=True),
    Kind("SIGTERM, then SIGKILL", acts.terminate_then_kill, core=(*FENCED, R.ADMIN_CALL)),
    Kind("SIGTERM, SIGKILL 5 s later", acts.terminate_as_airflow_does, core=(*BEGINNINGS, R.PAUSE), clears_up=True),
    Kind("SIGSTOP past session", acts.pause, core=(*BEGINNINGS, R.ADMIN_CALL, R.CLOSE), clears_up=True),
    Kind("SIGSTOP, overtaken", acts.overtake, core=(*BEGINNINGS, R.CONCLUDE)),
    Kind("late write of overtaken", acts.deliver_late, at=FENCED, core=(R.STEP,), phases=BEFORE_ONLY),
    Kind("late write, fence alone", acts.deliver_late_to_the_fence, at=FENCED, core=FENCED, phases=BEFORE_ONLY),
    Kind("cut at a request", acts.cut, core=ANYWHERE, clears_up=True),
    Kind("cut at a byte", acts.cut, at=(), core=(), is_at_byte=True, clears_up=True),
    Kind("short stall", acts.stall_briefly, core=(*BEGINNINGS, R.READ_BUNDLE), clears_up=True),
    Kind("stall past session", acts.stall_past_session, core=(*BEGINNINGS, R.ADMIN_CALL, R.CLOSE), clears_up=True),
    Kind("refused connections", acts.refuse, core=(*BEGINNINGS, R.READ_CONFIGURATION_STORE), clears_up=True),
    Kind(
        "session expiry",
        acts.expire,
        at=tuple(kind for kind in ANYWHERE if kind is not R.CONNECT),
        core=(*WRITES, R.READ_CONFIGURATION_STORE),
        clears_up=True,
    ),
    Kind("second writer", acts.start_second_writer, core=(R.ACQUIRE, R.STEP, R.CLOSE)),
    Kind("foreign writer", acts.race, at=BEGINNINGS, phases=(Phase.BEFORE, Phase.INSIDE), managers=(EXTENSIBLE,)),
    Kind("policy edit", acts.edit_policy, at=IN_A_RUN, core=(*BEGINNINGS, R.CONCLUDE, R.READ_CONFIGURATION_STORE)),
    Kind("switches edited", acts.edit_switches, core=(*BEGINNINGS, R.PAUSE, R.CLOSE)),
    Kind("switch set to the same", acts.repeat_switch, core=(*BEGINNINGS, R.CONCLUDE)),
    Kind("drain mark", acts.mark_draining, core=(*BEGINNINGS, R.OPEN, R.READ_DRAINING)),
    Kind("broker death", acts.kill_broker, core=BEGINNINGS),
    Kind("broker restart", acts.restart_broker, core=(*BEGINNINGS, R.READ_BROKERS)),
    Kind("broker session expiry", acts.expire_broker, phases=(Phase.AFTER, Phase.DONE)),
    Kind("kill switch", acts.pull_kill_switch, core=(*WRITES, R.ADMIN_CALL, R.READ_STOP), clears_up=True),
    Kind(WINDOW_END, at=(), core=()),
    Kind(CALLERS_END, at=(), core=()),
    Kind(CLOCK_SKEW, at=(), core=()),
    Kind(CLOCK_STEP, acts.step_clock, core=(*BEGINNINGS, R.CONCLUDE)),
    Kind("full lake", acts.fill_lake, core=(R.STEP, R.REHEARSAL)),
    Kind("read-only lake", acts.lock_lake, core=(R.STEP, R.CONCLUDE)),
    Kind("server restart", acts.restart_server, core=BEGINNINGS),
    Kind("leader killed", acts.restart_server, core=(R.STEP,), needs_ensemble=True),
    Kind("quorum lost", acts.lose_quorum, core=(R.STEP,), needs_ensemble=True),
)
BY_NAME = {kind.name: kind for kind in KINDS}
