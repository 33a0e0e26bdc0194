"""The clusters that plans are measured on: scenario, size and seed, and their files as the product reads them."""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.adapters.lake.store import from_arrow
from evenkeel.adapters.plain_files.importer import import_files
from evenkeel.model.load import MILLI
from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import Broker, PolicyDocument
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.problem.loads import share_cpu
from evenkeel.planning.splitting.cuts import children_of
from evenkeel_spark.transforms.pools import bundle_columns

SCENARIOS = ("skew", "scaleout", "hetero", "heavy", "multi", "policy")
OBJECTIVES = ("moves", "disruption", "balanced")
SEEDS = (1, 2, 3)
# A plan names the snapshot's time; any fixed time gives the same plan each time.
TAKEN_AT = datetime(2026, 1, 31, 3, tzinfo=UTC)
RATES = ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")
COUNTS = ("topics", "producers", "consumers")


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """How many brokers and bundles a cluster has."""

    brokers: int
    bundles: int

    def __str__(self) -> str:
        return f"{self.brokers:,}×{self.bundles:,}"

    @classmethod
    def parse(cls, text: str) -> Size:
        """Parse a size such as 30x3000 or 200×40,000."""
        brokers, by, bundles = text.lower().replace("×", "x").replace(",", "").partition("x")
        if not (by and brokers.isdecimal() and bundles.isdecimal() and int(brokers) and int(bundles)):
            raise ValueError(f"{text!r} is not a size: write brokers and bundles, such as 30x3000")
        return cls(int(brokers), int(bundles))


SMALL = Size(30, 3_000)
LARGE = Size(200, 40_000)
HUGE = Size(1_000, 1_000_000)


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One generated cluster."""

    scenario: str
    size: Size
    seed: int

    def __str__(self) -> str:
        return f"{self.scenario} {self.size} seed {self.seed}"

    @property
    def folder_name(self) -> str:
        return f"{self.scenario}-{self.size.brokers}x{self.size.bundles}-{self.seed}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """The planner's input."""

    brokers: tuple[Broker, ...]
    bundles: BundleColumns
    policies: Policies

    def shuffled(self, seed: int) -> Cluster:
        """The same cluster with its rows in another order."""
        chance = random.Random(seed)
        rows = chance.sample(range(len(self.bundles)), len(self.bundles))
        brokers = chance.sample(self.brokers, len(self.brokers))
        return Cluster(tuple(brokers), self.bundles.take(np.array(rows, dtype=np.intp)), self.policies)


def read_cluster(folder: Path) -> Cluster:
    """Import the files of a cluster, and convert the load of its bundles to the planner's units."""
    tables = import_files(
        folder / "brokers.csv", folder / "bundles.csv", folder / "policies.json", "bench", TAKEN_AT
    ).tables
    brokers = from_arrow(Broker, tables["brokers"], str(folder))
    documents = from_arrow(PolicyDocument, tables["policies"], str(folder))
    return Cluster(tuple(brokers), _planned_bundles(tables["bundles"], brokers), Policies.from_documents(documents))


def _planned_bundles(bundles: pa.Table, brokers: list[Broker]) -> BundleColumns:
    """The load of a snapshot as the Spark job plans it: now, in integers, with cpu shared out by message rate."""
    rates = pc.add(bundles["msg_rate_in_per_s"], bundles["msg_rate_out_per_s"])
    msg_rate_millis = _whole(pc.multiply(rates, float(MILLI)))
    owner = pc.index_in(bundles["owner"], value_set=pa.array([broker.broker_id for broker in brokers]))
    cpu = share_cpu(
        msg_rate_millis, pc.fill_null(owner, -1).to_numpy(), [broker.cpu_usage_percent for broker in brokers]
    )
    return bundle_columns(
        pa.table(
            {
                **{name: bundles[name] for name in ("bundle", "namespace", "owner", "version_id", "topics", "state")},
                "sessions": pc.add(bundles["producers"], bundles["consumers"]),
                "msg_rate_millis": msg_rate_millis,
                "throughput_in": _whole(bundles["throughput_in_bytes_per_s"]),
                "throughput_out": _whole(bundles["throughput_out_bytes_per_s"]),
                "cpu_millipercent": cpu,
            }
        )
    )


def _whole(values: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Round halves up, as the Spark transform does."""
    rounded = pc.round(values, round_mode="half_towards_infinity")
    return np.asarray(rounded.to_numpy(), dtype=np.int64)


def split_bundles(folder: Path, boundaries: Mapping[str, int], target: Path) -> None:
    """Copy the files of a cluster, with two children in the place of each of these bundles.

    The files have no topics, so each child gets half of the load, as the planner assumes; the upper child gets the
    odd topic or session.
    """
    for name in ("brokers.csv", "policies.json"):
        shutil.copyfile(folder / name, target / name)
    with (folder / "bundles.csv").open(newline="") as source, (target / "bundles.csv").open("w", newline="") as copy:
        rows = csv.DictReader(source)
        writer = csv.DictWriter(copy, rows.fieldnames or ())
        writer.writeheader()
        for row in rows:
            boundary = boundaries.get(row["bundle"])
            writer.writerows([row] if boundary is None else _split(row, boundary))


def _split(row: Mapping[str, str], boundary: int) -> list[dict[str, str]]:
    lower, upper = children_of(row["bundle"], boundary)
    halves = {name: repr(float(row[name]) / 2) for name in RATES}
    lower_counts = {name: str(int(row[name]) // 2) for name in COUNTS}
    upper_counts = {name: str(int(row[name]) - int(row[name]) // 2) for name in COUNTS}
    return [{**row, **halves, "bundle": lower, **lower_counts}, {**row, **halves, "bundle": upper, **upper_counts}]
