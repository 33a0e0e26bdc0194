"""What audits have learnt, in the lake: cpu calibrations and hand-over times, one Parquet file each time.

A file is named by its time and content. What is learnt later changes nothing for snapshots before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

from evenkeel.adapters.lake.store import Lake, cluster_folder, from_arrow, from_parquet, to_arrow, to_parquet
from evenkeel.model.canonical import sha256_hex
from evenkeel.model.errors import InputError
from evenkeel.model.load import CpuCalibration, HandOverTime

_DIGEST_CHARACTERS = 12
Row = TypeVar("Row", CpuCalibration, HandOverTime)


class LearntStore(Generic[Row]):
    """Learnt rows of one kind, of all clusters in one lake."""

    folder: ClassVar[str]
    row: ClassVar[type[Any]]
    key: ClassVar[str]
    """The column of which each value has one row."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write(self, cluster: str, learnt_at: datetime, rows: Sequence[Row]) -> str:
        """Store rows and return their id; two rows for one key are refused."""
        keys = [str(getattr(row, self.key)) for row in rows]
        key, times = Counter(keys).most_common(1)[0] if keys else ("", 0)
        if times > 1:
            raise InputError(f"{times} rows of {self.folder} are for {key}", f"give each {self.key} one row")
        ordered = sorted(rows, key=lambda row: str(getattr(row, self.key)))
        data = to_parquet(to_arrow(self.row, ordered))
        new_id = f"{_second(learnt_at)}-{sha256_hex(data)[:_DIGEST_CHARACTERS]}"
        self._lake.put_if_absent(self.path_of(cluster, new_id), data)
        return new_id

    def find(self, cluster: str, moment: datetime) -> str | None:
        """The id of the newest rows that were known at a moment; None where there were none."""
        names = self._lake.names(self._folder_of(cluster))
        known = [name.removesuffix(".parquet") for name in names if name.partition("-")[0] <= _second(moment)]
        return known[-1] if known else None

    def load(self, cluster: str, wanted: str) -> list[Row]:
        """The rows behind an id, proved to be those that it stands for."""
        path = self.path_of(cluster, wanted)
        data, uri = self._lake.read(path), self._lake.uri_of(path)
        if sha256_hex(data)[:_DIGEST_CHARACTERS] != wanted.rpartition("-")[2]:
            raise InputError(f"{uri} does not match its id", "restore it, or audit again")
        return from_arrow(self.row, from_parquet(data, uri), uri)

    @classmethod
    def path_of(cls, cluster: str, wanted: str) -> str:
        return f"{cls._folder_of(cluster)}/{wanted}.parquet"

    @classmethod
    def _folder_of(cls, cluster: str) -> str:
        return f"{cls.folder}/{cluster_folder(cluster)}"


class CalibrationStore(LearntStore[CpuCalibration]):
    """What a message costs in cpu, by namespace or bundle."""

    folder, row, key = "cpu_calibration", CpuCalibration, "key"


class HandOverStore(LearntStore[HandOverTime]):
    """How long a moved bundle is without an owner, by kind of step."""

    folder, row, key = "hand_over_times", HandOverTime, "kind"


def _second(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"
