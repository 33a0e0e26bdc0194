"""Turn two CSV files and a JSON file into a snapshot, for planning without a live cluster."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.adapters.lake.snapshots import SnapshotContent
from evenkeel.adapters.lake.store import arrow_schema, to_arrow
from evenkeel.adapters.plain_files.csv_tables import CsvTable
from evenkeel.adapters.plain_files.policies import read_policies_file
from evenkeel.model.bundles import RING_END
from evenkeel.model.errors import InputError
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import Broker, BrokerState, Bundle, LoadManager, PolicyDocument, Topic

_RESOURCES = {
    "cpu": "percent",
    "memory": "mib",
    "direct_memory": "mib",
    "bandwidth_in": "kbps",
    "bandwidth_out": "kbps",
}
BROKER_COLUMNS = (
    "failure_domain",
    "version",
    *(f"{resource}_{part}" for resource in _RESOURCES for part in ("usage", "limit")),
)
_RATES = {
    "msg_rate_in": "msg_rate_in_per_s",
    "msg_rate_out": "msg_rate_out_per_s",
    "throughput_in": "throughput_in_bytes_per_s",
    "throughput_out": "throughput_out_bytes_per_s",
}
_COUNTS = ("topics", "producers", "consumers")
BUNDLE_COLUMNS = (*_RATES, *_COUNTS)
_BROKER_ID = r"^[^\s/]+:[0-9]{1,5}$"
_BUNDLE_NAME = r"^[-=:.\w]+/[-=:.\w]+/0x[0-9a-f]{8}_0x[0-9a-f]{8}$"
# A bundle's name ends with 0x01234567_0x89abcdef, and a slash before it.
_HEX_LENGTH = 10
_RANGE_LENGTH = 2 * _HEX_LENGTH + 1

Integers = npt.NDArray[np.int64]


def import_files(
    brokers: Path, bundles: Path, policies: Path | None, cluster: str, taken_at: datetime
) -> SnapshotContent:
    """The snapshot of a cluster that is described by files; anything doubtful is refused."""
    if taken_at.tzinfo is None:
        raise InputError("the snapshot's time has no time zone", "give it in UTC, such as 2026-01-31T03:00:00Z")
    broker_file = CsvTable(brokers, ("broker_id",), BROKER_COLUMNS)
    broker_ids = _read_broker_ids(broker_file)
    plain_policies = read_policies_file(policies, broker_ids.to_pylist())
    domain_of = _merge_domains(broker_file, broker_ids, plain_policies.domain_of())
    bundle_file = CsvTable(bundles, ("bundle", "owner"), BUNDLE_COLUMNS)
    return SnapshotContent(
        cluster=cluster,
        taken_at=taken_at,
        load_manager=LoadManager.IMPORTED,
        tables={
            "brokers": _build_brokers(broker_file, broker_ids, domain_of, taken_at),
            "bundles": _build_bundles(bundle_file, broker_ids, taken_at),
            "topics": to_arrow(Topic, []),
            "policies": to_arrow(PolicyDocument, plain_policies.documents(domain_of)),
        },
        oldest_report_age_s=0.0,
    )


def _read_broker_ids(file: CsvTable) -> pa.StringArray:
    ids = file.required_text("broker_id")
    is_wrong = pc.invert(pc.match_substring_regex(ids, _BROKER_ID))
    file.refuse(is_wrong, "the broker's id is not host:port, such as b1.example.com:8080", ids)
    _refuse_duplicate(file, ids, "broker")
    return ids


def _refuse_duplicate(file: CsvTable, names: pa.StringArray, what: str) -> None:
    if pc.count_distinct(names).as_py() == len(names):
        return
    seen: set[str] = set()
    for row, name in enumerate(names.to_pylist()):
        if name in seen:
            file.refuse_row(row, f"{what} {name} appears twice")
        seen.add(name)


def _merge_domains(file: CsvTable, broker_ids: pa.StringArray, from_policies: Mapping[str, str]) -> dict[str, str]:
    """Failure domains of both files, which must not contradict each other."""
    domain_of = dict(from_policies)
    stated = zip(broker_ids.to_pylist(), file.text("failure_domain").to_pylist(), strict=True)
    for row, (broker, domain) in enumerate(stated):
        if domain is not None and domain_of.setdefault(broker, domain) != domain:
            problem = f"broker {broker} is in failure domain {domain!r}, but the policies say {domain_of[broker]!r}"
            file.refuse_row(row, problem)
    return domain_of


def _build_brokers(
    file: CsvTable, broker_ids: pa.StringArray, domain_of: Mapping[str, str], taken_at: datetime
) -> pa.Table:
    columns = {
        "broker_id": broker_ids,
        "state": _repeat(str(BrokerState.ACTIVE), file),
        "version": file.text("version"),
        "load_manager": _repeat(str(LoadManager.IMPORTED), file),
        "failure_domain": pa.array([domain_of.get(broker) for broker in broker_ids.to_pylist()], pa.string()),
        "reported_at": _repeat_time(taken_at, file),
    }
    for resource, unit in _RESOURCES.items():
        columns[f"{resource}_usage_{unit}"] = file.figures(f"{resource}_usage")
        limits = file.numbers(f"{resource}_limit")
        # Pulsar writes zero or less for an unknown limit.
        columns[f"{resource}_limit_{unit}"] = pc.if_else(pc.greater(limits, 0.0), limits, None)
    return _to_table(Broker, columns, file).take(pc.sort_indices(broker_ids))


def _build_bundles(file: CsvTable, broker_ids: pa.StringArray, taken_at: datetime) -> pa.Table:
    names = file.required_text("bundle")
    is_wrong = pc.invert(pc.match_substring_regex(names, _BUNDLE_NAME))
    file.refuse(is_wrong, "the bundle is not named tenant/namespace/0x00000000_0x40000000, in lower case", names)
    _refuse_duplicate(file, names, "bundle")
    namespaces = pc.dictionary_encode(pc.utf8_slice_codeunits(names, 0, -_RANGE_LENGTH - 1))
    lower = _parse_hex(pc.utf8_slice_codeunits(names, -_RANGE_LENGTH, -_RANGE_LENGTH + _HEX_LENGTH))
    upper = _parse_hex(pc.utf8_slice_codeunits(names, -_HEX_LENGTH))
    order = _sort_ring(namespaces, lower)
    _check_rings(file, namespaces, lower, upper, order)
    owners = _read_owners(file, broker_ids)
    columns = {
        "tenant": _tenants_of(namespaces),
        "namespace": namespaces.cast(pa.string()),
        "bundle": names,
        "range_lower": pa.array(lower),
        "range_upper": pa.array(upper),
        "owner": owners,
        "state": pc.if_else(pc.is_valid(owners), str(ServiceUnitState.OWNED), str(ServiceUnitState.INIT)),
        "reported_at": _repeat_time(taken_at, file),
    }
    columns |= {column: pc.fill_null(file.figures(name), 0.0) for name, column in _RATES.items()}
    columns |= {name: pc.fill_null(file.counts(name), 0) for name in _COUNTS}
    _refuse_load_without_owner(file, columns)
    return _to_table(Bundle, columns, file).take(pa.array(order))


def _read_owners(file: CsvTable, broker_ids: pa.StringArray) -> pa.StringArray:
    """Owners; an empty cell is an idle bundle."""
    owners = file.text("owner")
    is_unknown = pc.and_(pc.is_valid(owners), pc.invert(pc.is_in(owners, value_set=broker_ids)))
    file.refuse(is_unknown, "the owner is not among the brokers", owners)
    return owners


def _refuse_load_without_owner(file: CsvTable, columns: Mapping[str, pa.Array]) -> None:
    for name in (*_RATES.values(), *_COUNTS):
        has_load = pc.greater(columns[name], 0)
        file.refuse(
            pc.and_(pc.is_null(columns["owner"]), has_load), f"the bundle has {name} but no owner", columns[name]
        )


def _sort_ring(namespaces: pa.DictionaryArray, lower: Integers) -> Integers:
    """The order of rows by namespace and range, so that the same cluster gives the same snapshot."""
    rank = np.empty(len(namespaces.dictionary), np.int64)
    rank[pc.sort_indices(namespaces.dictionary).to_numpy()] = np.arange(len(rank))
    return np.lexsort((lower, rank[namespaces.indices.to_numpy()])).astype(np.int64)


def _check_rings(
    file: CsvTable, namespaces: pa.DictionaryArray, lower: Integers, upper: Integers, order: Integers
) -> None:
    """Refuse the first namespace whose ranges do not tile the ring."""
    code, low, high = namespaces.indices.to_numpy()[order], lower[order], upper[order]
    is_first = np.concatenate(([True], code[1:] != code[:-1]))
    is_last = np.concatenate((is_first[1:], [True]))
    expected = np.where(is_first, 0, np.concatenate(([0], high[:-1])))
    is_wrong = (low != expected) | (low >= high) | (is_last & (high != RING_END))
    if not is_wrong.any():
        return
    at = int(np.argmax(is_wrong))
    namespace = namespaces.dictionary[int(code[at])].as_py()
    place = f"0x{low[at]:08x}_0x{high[at]:08x}"
    if low[at] >= high[at]:
        fault = f"an empty range {place}"
    elif low[at] > expected[at]:
        fault = f"a gap from 0x{expected[at]:08x} to 0x{low[at]:08x}"
    elif low[at] < expected[at]:
        fault = f"an overlap at {place}"
    else:
        fault = f"a gap from 0x{high[at]:08x} to 0x{RING_END:08x}"
    file.refuse_row(int(order[at]), f"the bundles of namespace {namespace} have {fault}")


def _tenants_of(namespaces: pa.DictionaryArray) -> pa.StringArray:
    tenants = pa.array([name.partition("/")[0] for name in namespaces.dictionary.to_pylist()], pa.string())
    return tenants.take(namespaces.indices)


def _parse_hex(texts: pa.StringArray) -> Integers:
    return np.asarray(pc.cast(texts, pa.int64()).to_numpy(), dtype=np.int64)


def _repeat(value: str, file: CsvTable) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), len(file))


def _repeat_time(moment: datetime, file: CsvTable) -> pa.Array:
    return pa.repeat(pa.scalar(moment, pa.timestamp("us", "UTC")), len(file))


def _to_table(table: type, columns: Mapping[str, pa.Array], file: CsvTable) -> pa.Table:
    """Columns in the order of the table; what files do not have, such as incarnations, is null."""
    schema = arrow_schema(table)
    arrays = [columns[f.name] if f.name in columns else pa.nulls(len(file), f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
