"""What a writer is about to do, read from its requests: ZooKeeper's wire protocol, and HTTP to brokers."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

LENGTH = struct.Struct(">i")
REQUEST_HEADER = struct.Struct(">ii")
MULTI_HEADER = struct.Struct(">i?i")
MULTI = 14
CREATES = (1, 15)
DELETE = 2
EXISTS, GET_DATA, GET_CHILDREN, SYNC, GET_CHILDREN_WITH_STAT = 3, 4, 8, 9, 12
READS = (EXISTS, GET_DATA, GET_CHILDREN, SYNC, GET_CHILDREN_WITH_STAT)
SET_DATA = 5
CHECK = 13
NO_NODE_IS_EVER_AT = 2**31 - 1
"""The version that the rehearsal asks for, so that ZooKeeper refuses it whatever happens."""


class RequestKind(StrEnum):
    """What a request is to the guarded writer, in about the order in which a run makes them."""

    CONNECT = "connect"
    READ_BROKERS = "read brokers"
    READ_BY_HTTP = "read by HTTP"
    READ_JOURNAL = "read journal"
    REHEARSAL = "rehearsal"
    FOLDER = "folder"
    READ_FENCE = "read fence"
    ACQUIRE = "acquire"
    OPEN = "open"
    READ_POLICIES = "read policies"
    READ_CONFIGURATION_STORE = "configuration store"
    READ_STOP = "read stop"
    PAUSE = "pause"
    READ_BUNDLE = "read bundle"
    READ_DRAINING = "read draining"
    STEP = "step"
    INTENT = "intent"
    ADMIN_CALL = "admin call"
    LOOK_UP = "look-up"
    CONCLUDE = "conclude"
    READ_LEADER = "read leader"
    CLOSE = "close"
    RELEASE = "release"
    OTHER = "other"


HTTP_REQUESTS = frozenset({RequestKind.READ_BY_HTTP, RequestKind.ADMIN_CALL, RequestKind.LOOK_UP})


@dataclass(frozen=True, slots=True)
class SubRequest:
    """One operation of a multi as asked for; a creation has no version."""

    type: int
    path: str
    data: bytes = b""
    version: int = -1


def classify(frame: bytes) -> tuple[RequestKind, str]:
    """The kind of a request to ZooKeeper, and the bundle that it is about, if it is a step."""
    if len(frame) < REQUEST_HEADER.size:
        return RequestKind.OTHER, ""
    _, code = REQUEST_HEADER.unpack_from(frame)
    if code == MULTI:
        return classify_multi(read_multi(frame))
    if code in CREATES:
        return RequestKind.FOLDER, ""
    if code in READS:
        path, _ = _buffer(frame, REQUEST_HEADER.size)
        return classify_read(path.decode()), ""
    return RequestKind.OTHER, ""


def classify_multi(operations: Sequence[SubRequest]) -> tuple[RequestKind, str]:
    """What a transaction is for. A rehearsal looks like steps, but has no fence, and is refused whatever happens."""
    checks = [operation for operation in operations if operation.type == CHECK]
    is_fenced = any(operation.path.endswith("/fence") for operation in checks)
    if not is_fenced and any(operation.version == NO_NODE_IS_EVER_AT for operation in checks):
        return RequestKind.REHEARSAL, ""
    for operation in operations:
        if operation.type in CREATES and operation.path.endswith("/writer"):
            return RequestKind.ACQUIRE, ""
        if operation.type == DELETE and operation.path.endswith("/writer"):
            return RequestKind.RELEASE, ""
        if operation.type == SET_DATA and "/service_unit_state/" in operation.path:
            return RequestKind.STEP, operation.path.partition("/service_unit_state/")[2]
    for operation in operations:
        if "/steps/" in operation.path and operation.data:
            entry = _fields(operation.data)
            is_intent = entry.get("state") == "intended"
            return (RequestKind.INTENT, str(entry.get("bundle"))) if is_intent else (RequestKind.CONCLUDE, "")
    return _classify_status(operations), ""


def _classify_status(operations: Sequence[SubRequest]) -> RequestKind:
    """A plan's status is written when its run opens, when Pulsar's switches are paused, and when it closes."""
    written = [o for o in operations if o.type != CHECK]
    status = next((_fields(o.data) for o in written if "/plans/" in o.path and o.data), None)
    if status is None:
        return RequestKind.OTHER
    if any(o.path.endswith("/admin/configuration") for o in written):
        return RequestKind.CLOSE if status.get("switches") is None else RequestKind.PAUSE
    return RequestKind.OPEN if status.get("state") == "running" else RequestKind.CLOSE


_READ_BY_PLACE = {
    "/loadbalance/brokers": RequestKind.READ_BROKERS,
    "/service_unit_state/": RequestKind.READ_BUNDLE,
    "/namespace/": RequestKind.READ_BUNDLE,
    "/admin/": RequestKind.READ_POLICIES,
    "/leader": RequestKind.READ_LEADER,
    "/draining": RequestKind.READ_DRAINING,
    "/plans": RequestKind.READ_JOURNAL,
    "/stop": RequestKind.READ_STOP,
    "/fence": RequestKind.READ_FENCE,
    "/writer": RequestKind.READ_FENCE,
}


def classify_read(path: str) -> RequestKind:
    """What is read, by where it is."""
    return next((kind for place, kind in _READ_BY_PLACE.items() if place in path), RequestKind.OTHER)


def classify_http(method: str, target: str) -> RequestKind:
    """What is asked of a broker."""
    if method != "GET":
        return RequestKind.ADMIN_CALL
    return RequestKind.LOOK_UP if "/lookup/" in target else RequestKind.READ_BY_HTTP


def read_multi(frame: bytes) -> list[SubRequest]:
    """The operations of a multi request."""
    found: list[SubRequest] = []
    offset = REQUEST_HEADER.size
    while True:
        kind, is_done, _ = MULTI_HEADER.unpack_from(frame, offset)
        offset += MULTI_HEADER.size
        if is_done:
            return found
        path, offset = _buffer(frame, offset)
        data = b""
        if kind in (*CREATES, SET_DATA):
            data, offset = _buffer(frame, offset)
        if kind in CREATES:
            offset = _skip_acls(frame, offset)
        # A creation ends with its flags, the others with a version.
        (last,) = LENGTH.unpack_from(frame, offset)
        offset += LENGTH.size
        found.append(SubRequest(kind, path.decode(), data, -1 if kind in CREATES else last))


def _fields(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _buffer(frame: bytes, offset: int) -> tuple[bytes, int]:
    (length,) = LENGTH.unpack_from(frame, offset)
    start = offset + LENGTH.size
    return (b"", start) if length < 0 else (frame[start : start + length], start + length)


def _skip_acls(frame: bytes, offset: int) -> int:
    (count,) = LENGTH.unpack_from(frame, offset)
    offset += LENGTH.size
    for _ in range(max(count, 0)):
        _, offset = _buffer(frame, offset + LENGTH.size)
        _, offset = _buffer(frame, offset)
    return offset
