"""Reads ZooKeeper's own transaction log: every write of a run, who made it, in which multi, refused or not.

A log file is a header ("ZKLG", version, database id), then entries: checksum (Adler-32, 8 bytes), length, the entry's
bytes, and an end mark `B`; zeros follow the last one, because the server reserves space ahead. An entry is a
transaction header (session, cxid, zxid, time, type) and the transaction itself, in jute's encoding. A refused multi is
written down as well: its operations up to the refusal, then an error in the place of each that was not done.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

MAGIC = b"ZKLG"
FILE_HEADER = struct.Struct(">4siq")
ENTRY_HEADER = struct.Struct(">qi")
TXN_HEADER = struct.Struct(">qiqqi")
END_OF_ENTRY = b"B"
SESSION_MASK = 0xFFFFFFFFFFFFFFFF


class TxnType(IntEnum):
    """Types of transactions that the harness meets; the numbers are ZooKeeper's operation codes."""

    ERROR = -1
    CLOSE_SESSION = -11
    CREATE_SESSION = -10
    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    SET_ACL = 7
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21


CREATIONS = frozenset({TxnType.CREATE, TxnType.CREATE2, TxnType.CREATE_CONTAINER, TxnType.CREATE_TTL})
DELETIONS = frozenset({TxnType.DELETE, TxnType.DELETE_CONTAINER})


class TxnLogError(Exception):
    """A log file that is not what this reader knows: it names the file and the place."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One change, or one check, of one node; a refused one has ZooKeeper's error code and may lack the rest."""

    type: TxnType
    path: str = ""
    data: bytes = b""
    version: int = 0
    """After a change of data the node's new version; in a check the version that the node had."""
    is_ephemeral: bool = False
    error: int = 0


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one request did: all of its operations, or, where one has an error, none of them."""

    zxid: int
    time_ms: int
    session: int
    cxid: int
    type: TxnType
    operations: tuple[Operation, ...] = ()

    @property
    def is_multi(self) -> bool:
        return self.type is TxnType.MULTI

    @property
    def is_refused(self) -> bool:
        return any(operation.error for operation in self.operations)


def read_log(directory: Path, after_zxid: int = 0) -> list[Transaction]:
    """All transactions after a zxid, in order, from the log files of a server's data directory."""
    files = sorted(directory.rglob("log.*"), key=_first_zxid)
    # Of the files that begin at or before the wanted place only the last one can hold it.
    older = [file for file in files if _first_zxid(file) <= after_zxid + 1]
    return [
        transaction
        for file in [*older[-1:], *files[len(older) :]]
        for transaction in read_file(file, after_zxid)
        if transaction.zxid > after_zxid
    ]


def read_file(file: Path, after_zxid: int = 0) -> Iterator[Transaction]:
    """The transactions of one file after a zxid; those before it are passed over undecoded."""
    with file.open("rb") as log:
        header = log.read(FILE_HEADER.size)
        if not header.startswith(MAGIC):
            if header.strip(b"\0"):
                raise TxnLogError(f"{file} is not a ZooKeeper transaction log")
            return
        while len(prefix := log.read(ENTRY_HEADER.size)) == ENTRY_HEADER.size:
            checksum, length = ENTRY_HEADER.unpack(prefix)
            start = log.tell()
            entry, end = (log.read(length), log.read(1)) if length > 0 else (b"", b"")
            if end != END_OF_ENTRY:
                # Zeros after the last entry, or an entry that is being written at this moment.
                return
            if TXN_HEADER.unpack_from(entry)[2] <= after_zxid:
                continue
            if zlib.adler32(entry) != checksum:
                raise TxnLogError(f"{file} has an entry with a wrong checksum at byte {start}")
            yield decode_entry(entry)


def decode_entry(entry: bytes) -> Transaction:
    """One entry of the log."""
    session, cxid, zxid, time_ms, code = TXN_HEADER.unpack_from(entry)
    kind = TxnType(code)
    reader = _Jute(entry, TXN_HEADER.size)
    if kind is TxnType.MULTI:
        operations = tuple(_decode_operation(*reader.sub_transaction()) for _ in range(reader.integer()))
    elif kind in (TxnType.CREATE_SESSION, TxnType.CLOSE_SESSION):
        operations = ()
    else:
        operations = (_decode_operation(kind, reader),)
    return Transaction(zxid, time_ms, session & SESSION_MASK, cxid, kind, operations)


def _decode_operation(kind: TxnType, reader: _Jute) -> Operation:
    if kind is TxnType.ERROR:
        return Operation(kind, error=reader.integer())
    path = reader.text() if kind is not TxnType.RECONFIG else ""
    if kind in CREATIONS:
        data = reader.buffer()
        reader.skip_acls()
        is_ephemeral = kind in (TxnType.CREATE, TxnType.CREATE2) and reader.boolean()
        return Operation(kind, path, data, 0, is_ephemeral)
    if kind is TxnType.SET_DATA:
        data = reader.buffer()
        return Operation(kind, path, data, reader.integer())
    if kind is TxnType.CHECK:
        # The server writes down the version that the node would have next, whatever version was asked for.
        return Operation(kind, path, version=reader.integer() - 1)
    return Operation(kind, path)


def _first_zxid(file: Path) -> int:
    return int(file.suffix[1:], 16)


class _Jute:
    """ZooKeeper's encoding: big-endian numbers, and lengths before strings, buffers and vectors."""

    def __init__(self, content: bytes, offset: int = 0) -> None:
        self._content = content
        self._offset = offset

    def integer(self) -> int:
        (value,) = struct.unpack_from(">i", self._content, self._offset)
        self._offset += 4
        return int(value)

    def boolean(self) -> bool:
        self._offset += 1
        return self._content[self._offset - 1] != 0

    def buffer(self) -> bytes:
        length = self.integer()
        if length < 0:
            return b""
        self._offset += length
        return self._content[self._offset - length : self._offset]

    def text(self) -> str:
        return self.buffer().decode()

    def skip_acls(self) -> None:
        for _ in range(self.integer()):
            self.integer()
            self.buffer()
            self.buffer()

    def sub_transaction(self) -> tuple[TxnType, _Jute]:
        kind = TxnType(self.integer())
        return kind, _Jute(self.buffer())
