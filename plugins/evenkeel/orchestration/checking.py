"""The first task of every Dag that changes something: judge the request before anything is written or anybody asked.

What a run may do is decided here once, with the window that it belongs to. Later tasks get the answer:

    wishes        what the parameters say, as they were given
    window_start  when its window opens; null where the run may apply its plan at once
    deadline      when no step may begin any more; null where nobody set one
    break_glass   why the run need not keep to a window; empty where it does
    requested_by  who triggered the run; null where the schedule did
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from evenkeel.model.timestamps import format_time
from evenkeel.orchestration.connection import ClusterAccess, open_access
from evenkeel.orchestration.parameters import (
    BREAK_GLASS,
    BROKERS,
    DEADLINE,
    PLAN_ONLY,
    RUN,
    STRATEGY,
    read_brokers,
    read_deadline,
    read_plan_wishes,
    read_reason,
    read_run,
    read_timeout,
    refuse_unknown,
)
from evenkeel.orchestration.retry import READER
from evenkeel.orchestration.timetable import now
from evenkeel.orchestration.windows import WINDOW_START, choose_window

CHECK_TIMEOUT = timedelta(minutes=5)


@task(execution_timeout=CHECK_TIMEOUT, **READER)
def check_request(cluster: str | None, known: Sequence[str], has_windows: bool = False) -> dict[str, Any]:
    """Judge every parameter of the run; what is wrong is refused in one sentence, and nothing has happened yet."""
    context = get_current_context()
    run, params = context["dag_run"], dict(context["params"])
    refuse_unknown(run.conf or {}, known)
    access, moment = open_access(cluster), now()
    deadline, break_glass = read_deadline(params, moment), read_reason(BREAK_GLASS, params)
    read_timeout(params)
    require_sound(access, params)
    is_free = not has_windows or bool(break_glass) or bool(params.get(PLAN_ONLY))
    window = choose_window(access, run, moment, is_free=is_free)
    return {
        "wishes": {name: params[name] for name in known},
        WINDOW_START: None if window is None else format_time(window.start),
        DEADLINE: None if deadline is None else format_time(deadline),
        BREAK_GLASS: break_glass,
        "requested_by": getattr(run, "triggering_user_name", None),
    }


def require_sound(access: ClusterAccess, params: Mapping[str, Any]) -> None:
    """Refuse names, snapshots and runs that the cluster or its lake does not have; which ones depends on the Dag."""
    from evenkeel.stages.request_check import require_fresh, require_known
    from evenkeel.stages.rollback import find_plan_of

    if BROKERS in params:
        require_known(access.connection, access.settings, brokers=read_brokers(params))
    if STRATEGY in params:
        wishes = read_plan_wishes(params)
        require_known(
            access.connection,
            access.settings,
            brokers=wishes.brokers,
            namespaces=wishes.namespaces,
            bundles=wishes.bundles,
        )
        if wishes.snapshot is not None:
            require_fresh(access.lake, access.cluster, wishes.snapshot, access.settings)
    if RUN in params:
        find_plan_of(access.lake, read_run(params), access.cluster)
