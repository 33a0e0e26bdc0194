"""Cpu calibrations in the lake: one Parquet file each, named by its moment and content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from evenkeel.adapters.lake import Lake, from_arrow, to_arrow, to_parquet
from evenkeel.model.canonical import sha256_hex
from evenkeel.model.errors import InputError
from evenkeel.model.load import CpuCalibration

_DIGEST_CHARACTERS = 12


class CalibrationStore:
    """The cpu calibrations of all clusters in one lake; a new one changes nothing for snapshots before it."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write(self, cluster: str, learnt_at: datetime, rows: Sequence[CpuCalibration]) -> str:
        """Store a calibration and answer its id; two rows for one key are refused."""
        key, times = Counter(row.key for row in rows).most_common(1)[0] if rows else ("", 0)
        if times > 1:
            raise InputError(
                f"the cpu calibration weighs {key} {times} times", "give each namespace and bundle one row"
            )
        data = to_parquet(to_arrow(CpuCalibration, sorted(rows, key=lambda row: row.key)))
        calibration_id = f"{_second(learnt_at)}-{sha256_hex(data)[:_DIGEST_CHARACTERS]}"
        self._lake.put_if_absent(self.path_of(cluster, calibration_id), data)
        return calibration_id

    def find(self, cluster: str, moment: datetime) -> str | None:
        """The newest calibration that was known at a moment; None where there was none."""
        names = self._lake.names(_folder(cluster))
        known = [name.removesuffix(".parquet") for name in names if name.partition("-")[0] <= _second(moment)]
        return known[-1] if known else None

    def load(self, cluster: str, calibration_id: str) -> list[CpuCalibration]:
        """The rows of a calibration, proved to be those that its id stands for."""
        path = self.path_of(cluster, calibration_id)
        if sha256_hex(self._lake.read(path))[:_DIGEST_CHARACTERS] != calibration_id.rpartition("-")[2]:
            raise InputError(f"{self._lake.uri_of(path)} does not match its id", "restore it, or calibrate anew")
        return from_arrow(CpuCalibration, self._lake.read_table(path), self._lake.uri_of(path))

    @staticmethod
    def path_of(cluster: str, calibration_id: str) -> str:
        return f"{_folder(cluster)}/{calibration_id}.parquet"


def _folder(cluster: str) -> str:
    return f"cpu_calibration/cluster={cluster}"


def _second(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"
