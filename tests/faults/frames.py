"""Enough of ZooKeeper's wire protocol to know what a writer is about to do: requests, multis and replies."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum

LENGTH = struct.Struct(">i")
REQUEST_HEADER = struct.Struct(">ii")
MULTI_HEADER = struct.Struct(">i?i")
MULTI = 14
CREATES = (1, 15)
DELETE = 2
SET_DATA = 5
CHECK = 13


class FrameKind(StrEnum):
    """What a request is to the guarded writer."""

    ACQUIRE = "acquire"
    BEGIN = "begin"
    CONCLUDE = "conclude"
    SWITCHES = "switches"
    RELEASE = "release"
    OTHER_MULTI = "other multi"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SubRequest:
    """One operation of a multi as asked for."""

    type: int
    path: str
    data: bytes = b""


def classify(frame: bytes) -> tuple[FrameKind, str]:
    """The kind of a request, and the bundle that it is about, if it is about one."""
    if len(frame) < REQUEST_HEADER.size or REQUEST_HEADER.unpack_from(frame)[1] != MULTI:
        return FrameKind.OTHER, ""
    operations = read_multi(frame)
    for operation in operations:
        if operation.type in CREATES and operation.path.endswith("/writer"):
            return FrameKind.ACQUIRE, ""
        if operation.type == DELETE and operation.path.endswith("/writer"):
            return FrameKind.RELEASE, ""
        if operation.type == SET_DATA and "/service_unit_state/" in operation.path:
            return FrameKind.BEGIN, operation.path.partition("/service_unit_state/")[2]
    for operation in operations:
        if "/steps/" in operation.path and operation.data:
            return (FrameKind.BEGIN if b'"intended"' in operation.data else FrameKind.CONCLUDE), ""
        if operation.type == SET_DATA and operation.path.endswith("/admin/configuration"):
            return FrameKind.SWITCHES, ""
    return FrameKind.OTHER_MULTI, ""


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
        offset += LENGTH.size
        found.append(SubRequest(kind, path.decode(), data))


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
