"""What the tables of a snapshot must satisfy before anyone plans with it.

Tables: `brokers` (with the sums of their bundles in `bundles_in_bytes_per_s` and `bundles_out_bytes_per_s`),
`bundles`, `owners` (one row a broker id that owns bundles, `OWNERS`), `policies`. Only `bundles` may be large: on Spark
its rules see one partition at a time, and all bundles of a namespace are in the same one.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.gates.rules import Breach, rows_where, rule
from evenkeel.model.bundles import RING_END
from evenkeel.model.errors import InputError
from evenkeel.model.load import BYTES_PER_KILOBIT
from evenkeel.model.policies import Policies
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import BrokerState, LoadManager, PolicyDocument

BYTES_PER_MEGABYTE = 1_000_000
POLICY_KINDS = frozenset({"isolation", "failure_domain", "anti_affinity", "dynamic_configuration"})
BUNDLE_RATES = ("msg_rate_in_per_s", "msg_rate_out_per_s", "throughput_in_bytes_per_s", "throughput_out_bytes_per_s")
BUNDLE_COUNTS = ("topics", "producers", "consumers")
BROKER_FIGURES = tuple(
    f"{resource}_{figure}_{unit}"
    for resource, unit in (
        ("cpu", "percent"),
        ("memory", "mib"),
        ("direct_memory", "mib"),
        ("bandwidth_in", "kbps"),
        ("bandwidth_out", "kbps"),
    )
    for figure in ("usage", "limit")
)
PLANNED_LIMITS = {
    "cpu": "cpu_limit_percent",
    "bandwidth in": "bandwidth_in_limit_kbps",
    "bandwidth out": "bandwidth_out_limit_kbps",
}

OWNERS = pa.schema(
    [
        ("owner", pa.string()),
        ("bundles", pa.int64()),
        ("first_bundle", pa.string()),
        ("in_bytes_per_s", pa.int64()),
        ("out_bytes_per_s", pa.int64()),
        # Null where the owner is not among the brokers.
        ("is_registered", pa.bool_()),
    ]
)


@rule("brokers", "The snapshot holds at least 1 broker")
def snapshot_has_brokers(rows: pa.Table) -> Iterator[Breach]:
    if not rows.num_rows:
        yield Breach("The snapshot holds at least 1 broker, but 0 was found")


@rule("brokers", "Every broker is Initial, Active, Inactive or Stopping")
def broker_states_are_known(rows: pa.Table) -> Iterator[Breach]:
    """An unknown state might mean anything, also that the broker may not receive."""
    for broker_id, state in rows_where(rows, _is_not_in(rows["state"], BrokerState), "broker_id", "state"):
        yield Breach(f"broker {broker_id} is in the unknown state {state}")


@rule("brokers", "Every broker is listed once")
def brokers_are_listed_once(rows: pa.Table) -> Iterator[Breach]:
    """A broker with two rows would be counted twice."""
    for broker_id, times in Counter(rows["broker_id"].to_pylist()).items():
        if times > 1:
            yield Breach(f"broker {broker_id} is listed {times:,} times")


@rule("brokers", "Every broker that is planned with has a load report")
def brokers_have_reports(rows: pa.Table, without_report: Sequence[str]) -> Iterator[Breach]:
    """Without a report a broker's load is not known, which is not the same as none."""
    # An imported broker's row is its report: files carry no time of measurement.
    is_imported = pc.equal(rows["load_manager"], str(LoadManager.IMPORTED))
    is_silent = pc.and_(pc.is_null(rows["reported_at"]), pc.invert(is_imported))
    silent = {broker_id for (broker_id,) in rows_where(rows, is_silent, "broker_id")}
    # The manifest may name brokers that never made it into the table.
    for broker_id in (silent | set(without_report)) - _not_planned_with(rows):
        yield Breach(f"broker {broker_id} has no load report")


@rule("brokers", "Every registered broker that is not being drained has a fresh load report")
def brokers_are_heard(rows: pa.Table) -> Iterator[Breach]:
    """The pool of a broker that nobody hears is left as it is; the other pools are planned."""
    for broker_id in sorted(_unreported(rows)):
        yield Breach(f"broker {broker_id} has no fresh load report: its pool is not planned")


@rule("brokers", "Some pool has fresh load reports of all of its brokers")
def some_pool_is_known(rows: pa.Table, known_pools: int) -> Iterator[Breach]:
    """Where every pool has a broker that nobody hears, there is nothing to plan."""
    silent = sorted(_unreported(rows))
    if silent and not known_pools:
        more = f", nor have {len(silent) - 1:,} others" if len(silent) > 1 else ""
        yield Breach(f"no pool can be planned: broker {silent[0]} has no fresh load report{more}")


@rule("brokers", "No load report of a broker that is planned with is older than the limit")
def reports_are_fresh(rows: pa.Table, taken_at_epoch_s: float, limit_s: float) -> Iterator[Breach]:
    """An old report describes a load that may be gone. One from the future comes from a broken clock."""
    ignored = _not_planned_with(rows)
    for broker_id, reported_at in rows_where(rows, pc.is_valid(rows["reported_at"]), "broker_id", "reported_at"):
        if broker_id in ignored:
            continue
        age_s = taken_at_epoch_s - reported_at.timestamp()
        if abs(age_s) > limit_s:
            when = "old" if age_s > 0 else "ahead of its time"
            shown = f"report of broker {broker_id} is {math.ceil(abs(age_s)):,} s {when}"
            yield Breach(f"{shown}, the limit is {int(limit_s):,} s", abs(age_s))


@rule("brokers", "Usage and limits of brokers are finite and not negative")
def broker_figures_are_sane(rows: pa.Table) -> Iterator[Breach]:
    """A negative or infinite figure would poison every sum that it enters."""
    yield from _insane_figures(rows, "broker", "broker_id", BROKER_FIGURES, may_be_unknown=True)


@rule("brokers", "The limits of cpu and bandwidth are known of every broker")
def limits_are_known(rows: pa.Table) -> Iterator[Breach]:
    """A resource without a limit is left out of the planning on that broker."""
    for broker_id, *limits in rows_where(rows, None, "broker_id", *PLANNED_LIMITS.values()):
        unknown = [name for name, limit in zip(PLANNED_LIMITS, limits, strict=True) if limit is None]
        if unknown:
            yield Breach(f"the limit of {' and '.join(unknown)} of broker {broker_id} is unknown")


@rule("brokers", "The measured bandwidth of a broker is about the sum of its bundles")
def bundle_load_matches_broker_load(rows: pa.Table, tolerance: float, slack_bytes_per_s: float) -> Iterator[Breach]:
    """Traffic that no bundle explains (bookies, replication) is not balanced by moving bundles."""
    for way in ("in", "out"):
        names = ("broker_id", f"bandwidth_{way}_usage_kbps", f"bundles_{way}_bytes_per_s")
        for broker_id, usage_kbps, summed in rows_where(rows, pc.is_valid(rows[names[1]]), *names):
            measured = usage_kbps * BYTES_PER_KILOBIT
            deviation, larger = abs(measured - summed), max(measured, summed)
            if deviation > tolerance * larger and deviation > slack_bytes_per_s:
                yield Breach(
                    f"bandwidth {way} of broker {broker_id} is measured at {measured / BYTES_PER_MEGABYTE:,.1f} MB/s, "
                    f"its bundles sum to {summed / BYTES_PER_MEGABYTE:,.1f} MB/s",
                    deviation / larger,
                )


@rule("brokers", "The snapshot had to assume nothing, such as equal capacity of all brokers")
def nothing_was_assumed(rows: pa.Table, assumptions: Sequence[str]) -> Iterator[Breach]:
    """Whoever reads the plan has to know what the collector could not find out."""
    return map(Breach, assumptions)


@rule("bundles", "Every bundle is in a state that Pulsar knows", "bundle", "state")
def bundle_states_are_known(rows: pa.Table) -> Iterator[Breach]:
    """A bundle in an unknown state cannot be moved by a legal change of its record."""
    for bundle, state in rows_where(rows, _is_not_in(rows["state"], ServiceUnitState), "bundle", "state"):
        yield Breach(f"bundle {bundle} is in the unknown state {state}")


@rule("bundles", "Every bundle is listed once, with one owner", "bundle", "owner")
def bundles_are_listed_once(rows: pa.Table) -> Iterator[Breach]:
    """A bundle with two rows has two owners, or counts twice."""
    listed = rows.select(["bundle"]).group_by("bundle").aggregate([([], "count_all")])
    repeated = listed.filter(pc.greater(listed["count_all"], 1))
    is_repeated = pc.is_in(rows["bundle"], value_set=repeated["bundle"].combine_chunks())
    owners: dict[str, set[str]] = {name: set() for name in repeated["bundle"].to_pylist()}
    for bundle, owner in rows_where(rows, is_repeated, "bundle", "owner"):
        owners[bundle] |= {owner} - {None}
    for bundle, times in zip(repeated["bundle"].to_pylist(), repeated["count_all"].to_pylist(), strict=True):
        if len(owners[bundle]) > 1:
            yield Breach(f"bundle {bundle} has the owners {' and '.join(sorted(owners[bundle]))}")
        else:
            yield Breach(f"bundle {bundle} is listed {times:,} times")


@rule("bundles", "The bundles of every namespace tile the hash ring", "namespace", "range_lower", "range_upper")
def ranges_tile_the_ring(rows: pa.Table) -> Iterator[Breach]:
    """A gap would leave topics without a bundle, an overlap would give them two."""
    ranges = sorted(zip(*(rows[name].to_pylist() for name in ("namespace", "range_lower", "range_upper")), strict=True))
    for namespace, of_namespace in itertools.groupby(ranges, key=lambda entry: entry[0]):
        # The furthest end so far, because a range may lie inside one before it.
        end = 0
        for _, lower, upper in of_namespace:
            if lower > end:
                yield Breach(f"namespace {namespace}: a gap from 0x{end:08x} to 0x{lower:08x}")
            elif lower < end:
                yield Breach(f"namespace {namespace}: an overlap at 0x{lower:08x}_0x{upper:08x}")
            end = max(end, upper)
        if end < RING_END:
            yield Breach(f"namespace {namespace}: a gap from 0x{end:08x} to 0x{RING_END:08x}")


@rule("owners", "Every owned bundle's owner is a registered broker")
def owners_are_registered(rows: pa.Table) -> Iterator[Breach]:
    """A bundle whose owner is gone is about to move by itself; a plan made now would be wrong."""
    for row in rows.to_pylist():
        if row["is_registered"]:
            continue
        fault = "is not among the brokers" if row["is_registered"] is None else "is not registered"
        first, count = row["first_bundle"], row["bundles"]
        owned = f"bundle {first}" if count == 1 else f"{count:,} bundles, such as {first}"
        yield Breach(f"broker {row['owner']} owns {owned}, but {fault}")


@rule(
    "bundles",
    "Every bundle with load has an owner, unless it is being handed over",
    *("bundle", "owner", "state", *BUNDLE_RATES, *BUNDLE_COUNTS),
)
def load_has_an_owner(rows: pa.Table) -> Iterator[Breach]:
    """Load without an owner means that ownership and load were not read at the same time."""
    in_flight = [state for state in ServiceUnitState if state.is_in_flight]
    is_homeless = pc.and_(pc.is_null(rows["owner"]), _is_not_in(rows["state"], in_flight))
    for bundle, *figures in rows_where(rows, is_homeless, "bundle", *BUNDLE_RATES, *BUNDLE_COUNTS):
        # What is not a number is no reason to believe that there is no load.
        if any(figure is not None and not figure <= 0 for figure in figures):
            known = dict(zip((*BUNDLE_RATES, *BUNDLE_COUNTS), figures, strict=True))
            yield Breach(
                f"bundle {bundle} has load ({known['topics']:,} topics, "
                f"{known['throughput_in_bytes_per_s']:,.0f} bytes/s in, "
                f"{known['throughput_out_bytes_per_s']:,.0f} bytes/s out) but no owner"
            )


@rule("bundles", "Rates and counts of bundles are finite and not negative", "bundle", *BUNDLE_RATES, *BUNDLE_COUNTS)
def bundle_figures_are_sane(rows: pa.Table) -> Iterator[Breach]:
    """A negative or infinite rate would poison every sum that it enters."""
    yield from _insane_figures(rows, "bundle", "bundle", (*BUNDLE_RATES, *BUNDLE_COUNTS), may_be_unknown=False)


@rule("policies", "Every policy can be read as Pulsar reads it")
def policies_are_readable(rows: pa.Table) -> Iterator[Breach]:
    """A policy that cannot be read might forbid anything. Each is read alone, so that every fault is reported."""
    for fields in rows.to_pylist():
        document = PolicyDocument(**fields)
        if document.kind not in POLICY_KINDS:
            yield Breach(f"a policy is of the unknown kind {document.kind!r}")
        try:
            Policies.from_documents([document])
        except InputError as error:
            yield Breach(error.cause)


def _unreported(rows: pa.Table) -> frozenset[str]:
    """Registered brokers that nobody hears; the planner leaves their pools as they are."""
    silent = (BrokerState.INITIAL, BrokerState.INACTIVE)
    is_silent = pc.and_(pc.is_valid(rows["incarnation"]), pc.invert(_is_not_in(rows["state"], silent)))
    return frozenset(broker_id for (broker_id,) in rows_where(rows, is_silent, "broker_id"))


def _not_planned_with(rows: pa.Table) -> frozenset[str]:
    """Brokers whose load reports are not needed: those that nobody hears, and those that are being drained."""
    is_drained = pc.equal(rows["state"], str(BrokerState.STOPPING))
    return _unreported(rows) | {broker_id for (broker_id,) in rows_where(rows, is_drained, "broker_id")}


def _is_not_in(column: pa.ChunkedArray, states: Iterable[str]) -> pa.ChunkedArray:
    return pc.invert(pc.is_in(column, value_set=pa.array([str(state) for state in states], pa.string())))


def _insane_figures(
    rows: pa.Table, noun: str, key: str, names: Sequence[str], may_be_unknown: bool
) -> Iterator[Breach]:
    for name in names:
        figures = rows[name].cast(pa.float64())
        is_sane = pc.and_(pc.greater_equal(figures, 0.0), pc.less(figures, math.inf))
        for thing, figure in rows_where(rows, pc.invert(pc.fill_null(is_sane, may_be_unknown)), key, name):
            yield Breach(f"{name} of {noun} {thing} is {_show(figure)}")


def _show(figure: float | None) -> str:
    if figure is None:
        return "null"
    if math.isnan(figure):
        return "NaN"
    if math.isinf(figure):
        return "Infinity" if figure > 0 else "-Infinity"
    return str(float(figure))
