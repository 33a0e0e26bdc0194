"""The lake: artifacts that are written once and never changed.

Put-if-absent on a file system is a temporary file, fsync and link: readers see a whole artifact or none, and
of two writers exactly one wins. The same bytes again are a success, so every writer may be repeated.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from evenkeel.model.canonical import canonical_json
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.names import is_path_segment, require_cluster_name
from evenkeel.model.outside_json import parse_json, show
from evenkeel.model.tables import columns_of

# pyarrow takes half a second to import, and who reads JSON only does without it.
if TYPE_CHECKING:
    import pyarrow as pa


MOST_BYTES = 2**31
"""The largest table that is read into memory; the bundles of the largest clusters take a tenth of it."""
MOST_DOCUMENT_BYTES = 2**26
LONGEST_FILE_NAME = 255
PROBE_BYTES = 65_536
log = logging.getLogger(__name__)


class Lake:
    """Artifacts below one URI, addressed by relative paths."""

    def __init__(self, uri: str) -> None:
        self._root = _local_path(uri)
        self.uri = self._root.as_uri()

    def uri_of(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def require_existing(self) -> None:
        """Refuse a lake that is not there: what a mistyped path would show is an empty lake."""
        if not self._root.is_dir():
            raise InputError(
                f"the lake {self.uri} does not exist",
                "check --lake, or store a first snapshot with `evenkeel snapshot`",
            )

    def exists(self, path: str) -> bool:
        return self._locate(path).exists()

    def written_ns(self, path: str) -> int:
        """When an artifact was stored; artifacts are written once, so this never changes."""
        try:
            return self._locate(path).stat().st_mtime_ns
        except OSError as error:
            raise InputError(
                f"cannot read {self.uri_of(path)} ({error.strerror})", "check the lake's permissions"
            ) from error

    def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes:
        """The bytes of an artifact, read once: who checks a digest must parse these bytes, and not read again."""
        with self._reading(path):
            return self._read_regular(path, most_bytes)

    def sha256_of(self, path: str) -> str:
        """The SHA-256 of an artifact of any size, for what Spark reads by itself."""
        with self._reading(path), self._open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"{self.uri_of(path)} does not exist", "check the id and the lake's URI") from error
        except OSError as error:
            raise InputError(
                f"cannot read {self.uri_of(path)} ({error.strerror})", "check the lake's permissions"
            ) from error

    def read_json(self, path: str) -> Any:
        return from_json(self.read(path, MOST_DOCUMENT_BYTES), self.uri_of(path))

    def read_table(self, path: str) -> pa.Table:
        return from_parquet(self.read(path), self.uri_of(path))

    def names(self, prefix: str) -> list[str]:
        """Names directly below a prefix, sorted; none where the prefix does not exist."""
        folder = self._locate(prefix)
        if not folder.is_dir():
            return []
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        foreign = [name for name in names if not is_path_segment(name) or not name.isprintable()]
        for name in foreign:
            log.warning("%s in %s is not a name of Evenkeel's and is ignored", show(name), self.uri_of(prefix))
        return [name for name in names if name not in foreign]

    def require_writable(self) -> None:
        """Refuse a lake in which nothing can be written, by writing and removing a small file."""
        probe = self._root / f".probe.{uuid.uuid4().hex}"
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            try:
                with open(probe, "xb") as file:
                    # More than a file system keeps for a file's name: a full one refuses it.
                    file.write(bytes(PROBE_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise RefusedError(
                f"cannot write to the lake {self.uri} ({error.strerror})", "check its permissions and free space"
            ) from error

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write an artifact once; the same bytes again are a success, other bytes are refused."""
        target = self._locate(path)
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
                f"cannot write {self.uri_of(path)} ({error.strerror})", "check the lake's permissions and free space"
            ) from error

    def put_json(self, path: str, value: Any) -> None:
        self.put_if_absent(path, canonical_json(value))

    def _locate(self, path: str) -> Path:
        """Where an artifact is; a path that would lead out of the lake, or cannot be a file's, is refused."""
        for name in path.split("/"):
            if not is_path_segment(name) or len(name.encode(errors="replace")) > LONGEST_FILE_NAME:
                raise InputError(f"{show(name)} cannot be a name in the lake", "check the name that was given")
        return self._root / path

    def _open_regular(self, path: str) -> io.BufferedReader:
        # Without waiting: a FIFO has no end, and whoever feeds it could give every reader other bytes.
        file = os.fdopen(os.open(self._locate(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise InputError(f"{self.uri_of(path)} is not a regular file", "remove it from the lake")
        return file

    def _read_regular(self, path: str, most_bytes: int) -> bytes:
        with self._open_regular(path) as file:
            data = file.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise InputError(
                f"{self.uri_of(path)} has more than {most_bytes:,} bytes", "Evenkeel wrote no such file; remove it"
            )
        return data

    def _require_same(self, path: str, target: Path, data: bytes) -> None:
        is_same = (
            target.is_file() and target.stat().st_size == len(data) and self._read_regular(path, len(data)) == data
        )
        if not is_same:
            raise RefusedError(
                f"{self.uri_of(path)} exists with other content", "artifacts are never overwritten; use a new id"
            )


def cluster_folder(cluster: str) -> str:
    """The name of the folder that holds a cluster's artifacts of one kind."""
    return f"cluster={require_cluster_name(cluster)}"


def arrow_schema(table: type) -> pa.Schema:
    """The Arrow schema of a table's dataclass, each field with its comment."""
    import pyarrow as pa

    types = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", "UTC"),
    }
    return pa.schema(
        pa.field(c.name, types[c.type], c.nullable, metadata={"comment": c.comment}) for c in columns_of(table)
    )


def to_arrow(table: type, rows: Iterable[Any]) -> pa.Table:
    """Rows of a table's dataclass as an Arrow table."""
    import pyarrow as pa

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


def from_json(data: bytes, uri: str) -> Any:
    """The JSON value of an artifact's bytes."""
    try:
        return parse_json(data)
    except ValueError as error:
        raise InputError(f"{uri} is not JSON ({error})", "restore the artifact or create it again") from error


def from_parquet(data: bytes, uri: str) -> pa.Table:
    """The table of an artifact's bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # In this thread only: a process that ends while one of Arrow's threads still holds a Python file or buffer
        # aborts, after it has done all its work. `pq.read_table` reads through datasets, which always use threads.
        return pq.ParquetFile(pa.BufferReader(data), pre_buffer=False).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{uri} is not Parquet ({error})", "create the artifact again") from error


def to_parquet(frame: pa.Table) -> bytes:
    """A table's Parquet bytes; the same table gives the same bytes."""
    import pyarrow.parquet as pq

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
