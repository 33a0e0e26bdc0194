"""A writer is SIGSTOPped past its session, overtaken by a second run, then continued: its next write is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.model.snapshot import LoadManager
from faults.acts import Act, deliver_late, deliver_late_to_the_fence, overtake
from faults.checker import find_violations
from faults.frames import RequestKind
from faults.history import History
from faults.moments import Moment, Phase, Script, Struck
from faults.proxy import open_proxies
from faults.scene import Scene, writer_settings
from faults.stage import RunningStage, Workshop
from faults.txn_log import Transaction, TxnType

pytestmark = pytest.mark.faults

BAD_VERSION = -103
WHOLE_STEP = 4


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    with ExitStack() as stack:
        yield Workshop.open(stack)


@pytest.fixture
def stage(workshop: Workshop) -> Iterator[RunningStage]:
    """A plan that waits to be applied; its third step will be held at the proxy."""
    with ExitStack() as stack:
        name = workshop.next_name(0)
        kind = LoadManager.EXTENSIBLE
        scene = stack.enter_context(Scene(name, workshop.servers.hosts, workshop.operator, workshop.folder, kind))
        plan = scene.make_plan(datetime.now(UTC) + timedelta(hours=1))
        script = Script(Moment(RequestKind.STEP, 3, Phase.BEFORE))
        proxies = open_proxies(workshop.servers.addresses, script)
        for proxy in proxies:
            stack.callback(proxy.close)
        draw, switches = random.Random(0), scene.switches()
        stage = RunningStage(workshop, scene, plan, script, proxies, [], draw, writer_settings(), switches)
        stage.prepared_zxid = workshop.mark()
        yield stage


def play(stage: RunningStage, act: Act) -> tuple[str, int, list[Transaction]]:
    """Let a writer meet its fate; answers how it ended, its session, and all that was written."""
    sessions: list[int] = []

    def fire(connection: Struck, bundle: str) -> None:
        assert connection.session is not None
        sessions.append(connection.session[0])
        act(stage, connection, bundle)

    stage.script.action = fire
    told = stage.finish(stage.start_first_writer())
    assert stage.finish(stage.rivals[0]) == "done", "the second run takes over and finishes the plan"
    (session,) = sessions
    return told, session, stage.workshop.servers.read_history(0)


@pytest.mark.parametrize("act", [deliver_late, deliver_late_to_the_fence])
def test_late_write_of_an_overtaken_writer_is_a_refused_multi(stage: RunningStage, act: Act) -> None:
    told, _, transactions = play(stage, act)
    history = History(transactions, stage.facts())
    assert len(history.acquisitions) >= 2, "the second run has an epoch of its own"
    overtaken_at = history.acquisitions[1].transaction.zxid
    late = [t for t in transactions if t.zxid > overtaken_at and t.is_multi and t.is_refused]
    assert late, "the write that was under way when the writer was stopped reaches the server"
    print(late[0])
    assert len(late[0].operations) >= WHOLE_STEP, "it is a step's whole transaction"
    for refused in late:
        assert refused.operations[0].error == BAD_VERSION, "the fence, checked first, is what refuses it"
        assert all(operation.type is TxnType.ERROR for operation in refused.operations)
    changed_by = {state.transaction.session for states in history.states.values() for state in states}
    assert late[0].session not in changed_by, "the session that brought it has changed nothing"
    assert told != "done"
    settled = {entry.order for entry in history.entries if entry.state == "settled"}
    assert settled == {step.order for step in stage.plan.steps}


def test_overtaken_writer_changes_nothing_once_it_goes_on(stage: RunningStage) -> None:
    told, session, transactions = play(stage, overtake)
    history = History(transactions, stage.facts())
    overtaken_at = history.acquisitions[1].transaction.zxid
    late = [t for t in transactions if t.session == session and t.zxid > overtaken_at and t.operations]
    assert late == [], "its session is dead, so nothing of it is even heard"
    assert told != "done"
    assert find_violations(history) == []
