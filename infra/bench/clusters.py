"""A cluster in plain files, read as the product reads it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.adapters.lake import from_arrow
from evenkeel.adapters.plain_files import import_files
from evenkeel.model.load import MILLI
from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import Broker, PolicyDocument
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.load import share_cpu
from evenkeel_spark.transforms.bundle_columns import bundle_columns

# A plan names the snapshot's time; any fixed one gives the same plan each time.
TAKEN_AT = datetime(2026, 1, 31, 3, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the planner is given."""

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
    """Import the files of a cluster, and put the load of its bundles into the planner's units."""
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
    """Halves upwards, as `evenkeel_spark.transforms.figures.whole` rounds."""
    rounded = pc.round(values, round_mode="half_towards_infinity")
    return np.asarray(rounded.to_numpy(), dtype=np.int64)
