"""The planning loads of a cluster that one process can hold, without Spark.

The figures are those of `evenkeel_spark.transforms.planning_loads`; a test holds the two against each other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.adapters.lake.store import Lake
from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.load import AVERAGE_WEIGHT_MILLIS, MILLI, Resource, limit_units, whole
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.problem.pools import PoolAssignment
from evenkeel.planning.splitting.cuts import Cut, TopicColumns
from evenkeel_spark.artifacts import PROFILES, FrameStore
from evenkeel_spark.cluster_loads import (
    BUNDLE_COLUMNS,
    IDENTITY_COLUMNS,
    LOAD_COLUMNS,
    RESOURCE_COLUMNS,
    BundlesAtStake,
    NamespaceTotal,
    PlannedPool,
    PoolPlanner,
    cut_bundle,
    pool_names,
)

# A few hundred megabytes.
MOST_TOPICS_IN_PROCESS = 2_000_000

_Columns = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class ProfileTables:
    """The tables of a load profile, held by this process."""

    bundle_profiles: pa.Table
    hourly_peaks: pa.Table


def read_profile(lake: Lake, profile_id: str) -> ProfileTables:
    """The tables of a committed load profile."""
    store = FrameStore(lake, PROFILES)
    return ProfileTables(store.read_table(profile_id, "bundle_profiles"), store.read_table(profile_id, "hourly_peaks"))


class DriverLoads:
    """Planning loads in this process; see `ClusterLoads` for what the methods promise."""

    def __init__(self, columns: BundleColumns, topics: pa.Table) -> None:
        self._columns, self._topics = columns, topics

    @classmethod
    def of_profile(
        cls,
        profile: ProfileTables,
        topics: pa.Table,
        brokers: Sequence[Broker],
        hours: Sequence[int],
        settings: Settings,
    ) -> DriverLoads:
        """The loads that a plan is made for: owners and rates are those of the profile."""
        return cls(_planning_loads(_planned_rates(profile, hours, settings), brokers, settings), topics)

    @classmethod
    def of_snapshot(
        cls,
        bundles: pa.Table,
        profile: ProfileTables | None,
        topics: pa.Table,
        brokers: Sequence[Broker],
        hours: Sequence[int],
        settings: Settings,
    ) -> DriverLoads:
        """The loads by which a plan is judged: owners are the snapshot's, rates are those of the plan's profile.

        A plan without a profile is judged by the load of now. A bundle that the profile lacks carries nothing, and
        shows up as load that differs from the plan's.
        """
        rates = _rates_now(bundles)
        if profile is not None:
            planned = _planned_rates(profile, hours, settings)
            row_of = {bundle: row for row, bundle in enumerate(planned["bundle"])}
            rows = [row_of.get(bundle) for bundle in rates["bundle"]]
            for name in set(planned) - set(IDENTITY_COLUMNS):
                figures = planned[name]
                rates[name] = [0 if row is None else figures[row] for row in rows]
        return cls(_planning_loads(rates, brokers, settings), topics)

    @property
    def columns(self) -> BundleColumns:
        """All bundles with their load."""
        return self._columns

    def namespace_totals(self) -> list[NamespaceTotal]:
        rows_of: dict[str, list[int]] = defaultdict(list)
        for row, namespace in enumerate(self._columns.namespace.tolist()):
            rows_of[namespace].append(row)
        loads, owners = self._columns.loads(), self._columns.owner.tolist()
        return [
            NamespaceTotal(
                namespace=namespace,
                bundles=len(rows),
                owned=sum(owners[row] is not None for row in rows),
                carried=tuple(loads[rows].sum(axis=0).tolist()),
            )
            for namespace, rows in rows_of.items()
        ]

    def bundles_above(self, sizes: Mapping[str, Sequence[float]], fewest_topics: int) -> list[Mapping[str, Any]]:
        return [
            row
            for row in self._rows(self._plannable())
            if row["namespace"] in sizes
            and row["topics"] >= fewest_topics
            and any(row[load] > size for load, size in zip(RESOURCE_COLUMNS, sizes[row["namespace"]], strict=True))
        ]

    def find_cuts(self, boundaries: Mapping[str, int | None]) -> dict[str, Cut]:
        if not boundaries:
            return {}
        wanted = self._topics.filter(pc.is_in(self._topics["bundle"], value_set=pa.array(boundaries, pa.string())))
        topics = _topic_columns(wanted)
        bundle_of_row = np.array(wanted["bundle"].to_pylist(), dtype=object)
        cuts = {}
        for bundle, boundary in boundaries.items():
            rows = np.flatnonzero(bundle_of_row == bundle)
            its_topics = TopicColumns(**{f.name: getattr(topics, f.name)[rows] for f in fields(TopicColumns)})
            cut = cut_bundle(bundle, its_topics, boundary)
            if cut is not None:
                cuts[bundle] = cut
        return cuts

    def plan_pools(self, pools: PoolAssignment, plan: PoolPlanner) -> list[PlannedPool]:
        bundles = self._plannable()
        home = np.array([pools.pool_of_namespace.get(name) for name in bundles.namespace.tolist()], dtype=object)
        host = np.array([pools.pool_of_broker.get(owner) for owner in bundles.owner.tolist()], dtype=object)
        return [plan(pool, bundles.take(np.flatnonzero((home == pool) | (host == pool)))) for pool in pool_names(pools)]

    def compute(self, function: Callable[[BundleColumns], Any]) -> Any:
        # By way of JSON, as from an executor: a tuple is a list either way.
        return json.loads(json.dumps(function(self._plannable()), allow_nan=False))

    def placed(self, at_stake: BundlesAtStake) -> list[dict[str, Any]]:
        rows = []
        for row in self._rows(self._columns):
            is_at_stake = row["bundle"] in at_stake.bundles or row["namespace"] in at_stake.namespaces
            if is_at_stake or row["owner"] is not None:
                rows.append(row | {"is_at_stake": is_at_stake})
        return rows

    def _plannable(self) -> BundleColumns:
        """The bundles that have an owner, and that Pulsar does not pin to their place."""
        pairs = zip(self._columns.owner.tolist(), self._columns.namespace.tolist(), strict=True)
        rows = [
            row
            for row, (owner, namespace) in enumerate(pairs)
            if owner is not None and not is_system_namespace(namespace)
        ]
        return self._columns.take(np.array(rows, dtype=np.intp))

    @staticmethod
    def _rows(columns: BundleColumns) -> list[dict[str, Any]]:
        values = zip(*(getattr(columns, name).tolist() for name in BUNDLE_COLUMNS), strict=True)
        return [dict(zip(BUNDLE_COLUMNS, row, strict=True)) for row in values]


def _planned_rates(profile: ProfileTables, hours: Sequence[int], settings: Settings) -> _Columns:
    """Each bundle of a profile with the rates that the settings ask for, and its rates of now beside them."""
    table = profile.bundle_profiles
    rates = {name: table[name].to_pylist() for name in (*IDENTITY_COLUMNS, "cpu_weight_millis")}
    for load, pattern in LOAD_COLUMNS.items():
        rates[f"{load}_now"] = table[pattern.format("now")].to_pylist()
        rates[load] = table[pattern.format(settings.planning_load)].to_pylist()
    if settings.planning_load == "peak":
        _use_peaks_of_hours(rates, profile.hourly_peaks, hours)
    return rates


def _use_peaks_of_hours(rates: _Columns, hourly_peaks: pa.Table, hours: Sequence[int]) -> None:
    """Replace a bundle's peak by that of some hours of the week, where the history has seen it in all of them."""
    is_in_hours = pc.is_in(hourly_peaks["hour_of_week"], value_set=pa.array(hours, pa.int64()))
    patterns = [pattern.format("peak") for pattern in LOAD_COLUMNS.values()]
    peaks_of: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    of_hours = hourly_peaks.filter(is_in_hours).select(["bundle", *patterns]).to_pydict()
    for bundle, *peaks in zip(*of_hours.values(), strict=True):
        peaks_of[bundle].append(tuple(peaks))
    for row, bundle in enumerate(rates["bundle"]):
        if len(peaks_of.get(bundle, ())) == len(hours):
            for load, *peaks in zip(LOAD_COLUMNS, *peaks_of[bundle], strict=True):
                rates[load][row] = max(peaks)


def _rates_now(bundles: pa.Table) -> _Columns:
    """Each bundle of a snapshot with its rates of now."""
    columns = bundles.to_pydict()
    rates = {name: columns[name] for name in IDENTITY_COLUMNS if name != "sessions"}
    rates["sessions"] = [sum(pair) for pair in zip(columns["producers"], columns["consumers"], strict=True)]
    rates["cpu_weight_millis"] = [AVERAGE_WEIGHT_MILLIS] * bundles.num_rows
    for load, figures in _integer_loads(columns).items():
        rates[load] = rates[f"{load}_now"] = figures
    return rates


def _integer_loads(columns: Mapping[str, Sequence[float]]) -> dict[str, list[int]]:
    messages = zip(columns["msg_rate_in_per_s"], columns["msg_rate_out_per_s"], strict=True)
    return {
        "msg_rate_millis": _whole((rate_in + rate_out) * MILLI for rate_in, rate_out in messages),
        "throughput_in": _whole(columns["throughput_in_bytes_per_s"]),
        "throughput_out": _whole(columns["throughput_out_bytes_per_s"]),
    }


def _whole(figures: Iterable[float]) -> list[int]:
    return [whole(figure) for figure in figures]


def _planning_loads(rates: _Columns, brokers: Sequence[Broker], settings: Settings) -> BundleColumns:
    """The planning load of each bundle, in plain integers, because products of two rates outgrow 64 bits."""
    weights = rates["cpu_weight_millis"]
    cost, cost_now = (_weighted(rates[name], weights) for name in ("msg_rate_millis", "msg_rate_millis_now"))
    cpu = _shared(cost, cost_now, rates["owner"], _measured(Resource.CPU, brokers))
    throughputs = {name: rates[name] for name in ("throughput_in", "throughput_out")}
    if settings.bandwidth_model == "scaled":
        for name, resource in (("throughput_in", Resource.BANDWIDTH_IN), ("throughput_out", Resource.BANDWIDTH_OUT)):
            throughputs[name] = _scaled(rates[name], rates[f"{name}_now"], rates["owner"], _measured(resource, brokers))
    columns: dict[str, Any] = {name: rates[name] for name in (*IDENTITY_COLUMNS, "msg_rate_millis")}
    return BundleColumns(**columns, **throughputs, cpu_millipercent=cpu)  # type: ignore[arg-type]


def _measured(resource: Resource, brokers: Sequence[Broker]) -> dict[str | None, int]:
    """What the brokers measured, in integer units; 0 is unknown."""
    usage = {
        Resource.CPU: "cpu_usage_percent",
        Resource.BANDWIDTH_IN: "bandwidth_in_usage_kbps",
        Resource.BANDWIDTH_OUT: "bandwidth_out_usage_kbps",
    }[resource]
    return {broker.broker_id: limit_units(resource, getattr(broker, usage)) for broker in brokers}


def _weighted(rates: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Messages in units of the average message, rounded to the nearest thousandth."""
    half = AVERAGE_WEIGHT_MILLIS // 2
    return [(rate * weight + half) // AVERAGE_WEIGHT_MILLIS for rate, weight in zip(rates, weights, strict=True)]


def _totals(figures: Sequence[int], owners: Sequence[str | None]) -> dict[str | None, int]:
    totals: dict[str | None, int] = defaultdict(int)
    for figure, owner in zip(figures, owners, strict=True):
        totals[owner] += figure
    return totals


def _shared(
    costs: Sequence[int], costs_now: Sequence[int], owners: Sequence[str | None], measured: Mapping[str | None, int]
) -> list[int]:
    """Each bundle's part of its owner's cpu; the cpu of a broker without messages stays unassigned."""
    totals = _totals(costs_now, owners)
    return [
        _in_proportion(cost, measured[owner], totals[owner])
        if owner is not None and owner in measured and totals[owner] > 0
        else 0
        for cost, owner in zip(costs, owners, strict=True)
    ]


def _scaled(
    throughputs: Sequence[int], now: Sequence[int], owners: Sequence[str | None], measured: Mapping[str | None, int]
) -> list[int]:
    """Throughputs with their parts of the measured traffic that no bundle explains."""
    totals = _totals(now, owners)
    return [
        _in_proportion(figure, measured[owner], totals[owner])
        if owner is not None and owner in measured and 0 < totals[owner] < measured[owner]
        else figure
        for figure, owner in zip(throughputs, owners, strict=True)
    ]


def _in_proportion(part: int, measured: int, total: int) -> int:
    """`measured` × `part` ÷ `total`, rounded to the nearest."""
    return (2 * measured * part + total) // (2 * total)


def _topic_columns(topics: pa.Table) -> TopicColumns:
    columns = topics.to_pydict()
    sessions = [sum(pair) for pair in zip(columns["producers"], columns["consumers"], strict=True)]
    return TopicColumns(hash=columns["hash"], sessions=sessions, **_integer_loads(columns))  # type: ignore[arg-type]
