"""What brokers carry now, in the planner's units, as far as they have reported it."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.cluster.reader import read_cluster
from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.load import MILLI, Resource
from evenkeel.model.settings import Settings

_THROUGHPUTS = {
    Resource.BANDWIDTH_IN: "throughput_in_bytes_per_s",
    Resource.BANDWIDTH_OUT: "throughput_out_bytes_per_s",
}


def read_realised_load(connection: ClusterConnection, settings: Settings) -> dict[tuple[str, str], int]:
    """The load of the brokers that report it from now on; a broker whose report is older is left out."""
    moment = datetime.now(UTC)
    with open_cluster(connection, BrokerAccess.from_settings(settings)) as source:
        tables = read_cluster(source, connection.cluster, settings, moment).tables
    return realised_load(tables["bundles"], reported_since(moment, tables["brokers"]))


def reported_since(moment: datetime, brokers: pa.Table) -> pa.Table:
    """The rows of a snapshot's brokers whose reports are not older than a moment."""
    return brokers.filter(pc.greater_equal(brokers["reported_at"], pa.scalar(moment, pa.timestamp("us", "UTC"))))


def realised_load(bundles: pa.Table, brokers: pa.Table) -> dict[tuple[str, str], int]:
    """The load of these brokers in the planner's units: their bundles' traffic, and their measured cpu."""
    load: dict[tuple[str, str], int] = {}
    for broker, usage in zip(brokers["broker_id"].to_pylist(), brokers["cpu_usage_percent"].to_pylist(), strict=True):
        if usage is not None:
            load[broker, Resource.CPU] = round(usage * MILLI)
        load |= {(broker, resource): 0 for resource in _THROUGHPUTS}
    owned = bundles.filter(pc.is_valid(bundles["owner"]))
    sums = owned.group_by("owner").aggregate([(column, "sum") for column in _THROUGHPUTS.values()])
    for resource, column in _THROUGHPUTS.items():
        for broker, total in zip(sums["owner"].to_pylist(), sums[f"{column}_sum"].to_pylist(), strict=True):
            if (broker, resource) in load:
                load[broker, resource] = round(total)
    return load
