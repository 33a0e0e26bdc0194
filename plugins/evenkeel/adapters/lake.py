"""The lake: artifacts that are written once and never changed.

Put-if-absent on a file system is a temporary file, fsync and link: readers see a whole artifact or none, and
of two writers exactly one wins. The same bytes again are a success, so every writer may be repeated.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from evenkeel.model.canonical import canonical_json
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.outside_json import parse_json
from evenkeel.model.tables import columns_of

_ARROW_TYPES: Mapping[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", "UTC"),
}


class Lake:
    """Artifacts below one URI, addressed by relative paths."""

    def __init__(self, uri: str) -> None:
        self._root = _local_path(uri)
        self.uri = self._root.as_uri()

    def uri_of(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def exists(self, path: str) -> bool:
        return (self._root / path).exists()

    def read(self, path: str) -> bytes:
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError as error:
            raise InputError(f"{self.uri_of(path)} does not exist", "check the id and the lake's URI") from error
        except OSError as error:
            raise InputError(
                f"cannot read {self.uri_of(path)} ({error.strerror})", "check the lake's rights"
            ) from error

    def read_json(self, path: str) -> Any:
        try:
            return parse_json(self.read(path))
        except ValueError as error:
            raise InputError(
                f"{self.uri_of(path)} is not JSON ({error})", "restore the artifact or make it anew"
            ) from error

    def read_table(self, path: str) -> pa.Table:
        data = self.read(path)
        try:
            # This thread alone: a process that ends while one of Arrow's threads still holds a Python file or buffer
            # aborts, after it has done all its work. `pq.read_table` reads by datasets, which use threads in any case.
            return pq.ParquetFile(pa.BufferReader(data), pre_buffer=False).read(use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.uri_of(path)} is not Parquet ({error})", "make the artifact anew") from error

    def names(self, prefix: str) -> list[str]:
        """Names directly below a prefix, sorted; none where the prefix does not exist."""
        folder = self._root / prefix
        if not folder.is_dir():
            return []
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write an artifact once; the same bytes again are a success, other bytes are refused."""
        target = self._root / path
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(temporary, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(temporary, target)
            except FileExistsError:
                self._require_same(path, target, data)
            finally:
                temporary.unlink(missing_ok=True)
            _sync_folder(target.parent)
        except OSError as error:
            raise RefusedError(
                f"cannot write {self.uri_of(path)} ({error.strerror})", "check the lake's rights and space"
            ) from error

    def put_json(self, path: str, value: Any) -> None:
        self.put_if_absent(path, canonical_json(value))

    def _require_same(self, path: str, target: Path, data: bytes) -> None:
        if target.read_bytes() != data:
            raise RefusedError(
                f"{self.uri_of(path)} exists with other content", "artifacts are never overwritten; use a new id"
            )


def arrow_schema(table: type) -> pa.Schema:
    """The Arrow schema of a table's dataclass, each field with its comment."""
    return pa.schema(
        pa.field(c.name, _ARROW_TYPES[c.type], c.nullable, metadata={"comment": c.comment}) for c in columns_of(table)
    )


def to_arrow(table: type, rows: Iterable[Any]) -> pa.Table:
    """Rows of a table's dataclass as an Arrow table."""
    schema = arrow_schema(table)
    # Not dataclasses.astuple, which copies every value deeply and takes longer than reading the cluster.
    columns = list(zip(*map(attrgetter(*schema.names), rows), strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def from_arrow(table: type, frame: pa.Table, uri: str) -> list[Any]:
    """An Arrow table as rows of a table's dataclass; a frame with other columns is refused."""
    names = [c.name for c in columns_of(table)]
    if frame.column_names != names:
        raise InputError(f"{uri} has other columns than {table.__name__}", "read it with the version that wrote it")
    return [table(*values) for values in zip(*(frame[name].to_pylist() for name in names), strict=True)]


def to_parquet(frame: pa.Table) -> bytes:
    """A table's Parquet bytes; the same table gives the same bytes."""
    sink = io.BytesIO()
    pq.write_table(frame, sink, compression="zstd")
    return sink.getvalue()


def _local_path(uri: str) -> Path:
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        raise InputError(f"the lake {uri!r} is not on a file system", "give a path or a file:// URI")
    path = unquote(parts.path) if parts.scheme else uri
    if not path:
        raise InputError("the lake's URI is empty", "give a path or a file:// URI")
    return Path(path).resolve()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
