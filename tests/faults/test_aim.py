"""Faults strike where they are aimed: requests are told apart, and a run makes those that faults aim at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetData,
    SetData,
    Sync,
    Transaction,
    int_struct,
)

from evenkeel.adapters.fencing.fence import NO_NODE_IS_EVER_AT as ASKED_FOR
from evenkeel.model.snapshot import LoadManager
from faults.cases import Case, plain_case
from faults.frames import NO_NODE_IS_EVER_AT, RequestKind, classify, classify_http
from faults.kinds import ALL_MANAGERS, REQUESTS
from faults.run import count_requests
from faults.scene import STEPS
from faults.servers import Layout
from faults.stage import Workshop

R = RequestKind
HOME, UNITS = "/evenkeel/fleet", "/pulsar/service_unit_state"
BUNDLE, STEP = "t/n/0x00000000_0x40000000", f"{HOME}/plans/p/steps/000001"
FENCE = CheckVersion(f"{HOME}/fence", 3)


def frame(request: object) -> bytes:
    return int_struct.pack(7) + int_struct.pack(request.type) + bytes(request.serialize())  # type: ignore[attr-defined]


def multi(*operations: object) -> bytes:
    return frame(Transaction(list(operations)))


def status(state: str, switches: str = "null") -> SetData:
    return SetData(f"{HOME}/plans/p", f'{{"state":"{state}","switches":{switches}}}'.encode(), -1)


def switches() -> SetData:
    return SetData("/pulsar/admin/configuration", b"{}", 4)


@pytest.mark.parametrize(
    ("request_bytes", "kind", "bundle"),
    [
        (multi(SetData(f"{UNITS}/{BUNDLE}", b"{}", 1), CheckVersion(f"{UNITS}/{BUNDLE}", ASKED_FOR)), R.REHEARSAL, ""),
        (multi(FENCE, SetData(f"{UNITS}/{BUNDLE}", b"{}", 1), Create(STEP, b"{}", [], 0)), R.STEP, BUNDLE),
        (multi(FENCE, CheckVersion("/pulsar/b", ASKED_FOR), SetData(f"{UNITS}/{BUNDLE}", b"{}", 1)), R.STEP, BUNDLE),
        (multi(FENCE, Create(STEP, b'{"state":"intended","bundle":"%s"}' % BUNDLE.encode(), [], 0)), R.INTENT, BUNDLE),
        (multi(FENCE, SetData(STEP, b'{"state":"settled"}', -1)), R.CONCLUDE, ""),
        (multi(SetData(f"{HOME}/fence", b"token", 2), Create(f"{HOME}/writer", b"{}", [], 1)), R.ACQUIRE, ""),
        (multi(FENCE, Delete(f"{HOME}/writer", -1)), R.RELEASE, ""),
        (multi(FENCE, status("running")), R.OPEN, ""),
        (multi(FENCE, switches(), status("running", "{}")), R.PAUSE, ""),
        (multi(FENCE, switches(), status("done")), R.CLOSE, ""),
        (multi(FENCE, status("stopped")), R.CLOSE, ""),
        (frame(Create(f"{HOME}/fence", b"", [], 0)), R.FOLDER, ""),
        (frame(GetData(f"{UNITS}/{BUNDLE}", None)), R.READ_BUNDLE, ""),
        (frame(GetData(f"{HOME}/stop", None)), R.READ_STOP, ""),
        (frame(Exists("/pulsar/loadbalance/brokers", None)), R.READ_BROKERS, ""),
        (frame(Exists(f"{HOME}/draining", None)), R.READ_DRAINING, ""),
        (frame(Sync(f"{HOME}/fence")), R.READ_FENCE, ""),
        (frame(GetData("/pulsar/loadbalance/extension/leader", None)), R.READ_LEADER, ""),
        (frame(GetData("/pulsar/admin/configuration", None)), R.READ_POLICIES, ""),
    ],
)
def test_request_is_known_for_what_it_is(request_bytes: bytes, kind: RequestKind, bundle: str) -> None:
    assert classify(request_bytes) == (kind, bundle)


def test_rehearsal_is_known_by_the_version_that_it_asks_for() -> None:
    assert ASKED_FOR == NO_NODE_IS_EVER_AT


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("PUT", f"/b01/admin/v2/namespaces/{BUNDLE}/unload", R.ADMIN_CALL),
        ("GET", "/b01/lookup/v2/topic/persistent/t/n/topic", R.LOOK_UP),
        ("GET", "/b01/admin/v2/brokers/fleet/b01/ownedNamespaces", R.READ_BY_HTTP),
    ],
)
def test_request_to_a_broker_is_known(method: str, target: str, kind: RequestKind) -> None:
    assert classify_http(method, target) is kind


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    with ExitStack() as stack:
        yield Workshop.open(stack, Layout.TWO_STORES)


@pytest.mark.faults
@pytest.mark.parametrize("manager", ALL_MANAGERS)
def test_undisturbed_run_makes_every_request_that_faults_aim_at(workshop: Workshop, manager: LoadManager) -> None:
    case: Case = plain_case(manager)
    seen = count_requests(case, workshop)
    assert {kind: least for kind, least in REQUESTS[manager].items() if seen[kind] < least} == {}
    assert seen[R.STEP] + seen[R.INTENT] == STEPS, "each step is counted once, and nothing else as one"
