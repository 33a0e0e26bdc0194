"""Single rules on tables of their own, where a whole gate would say no more."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from evenkeel.adapters.lake.store import to_arrow
from evenkeel.gates.plan_gate import BalanceRow
from evenkeel.gates.rules import Breach, Finding, Rule, apply_rule, load_rules, merge_findings
from evenkeel.gates.snapshot_gate import judge_snapshot
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle
from support import small_cluster
from support.small_cluster import B01, change

FIRST = "shop/orders/0x00000000_0x40000000"


def breaches(name: str, rows: pa.Table, **kwargs: Any) -> list[str]:
    return sorted(breach.detail for breach in load_rules()[name].find_breaches(rows, **kwargs))


def owners(brokers: Sequence[Broker], bundles: Sequence[Bundle]) -> list[str]:
    """What `owners_are_registered` finds in a snapshot."""
    verdict = judge_snapshot(small_cluster.manifest(), small_cluster.tables(brokers, bundles), Settings())
    (check,) = [check for check in verdict.checks if check.name == "owners_are_registered"]
    return [] if check.passed else [check.detail]


def test_gaps_of_the_ring_are_named_where_they_are() -> None:
    whole = [row for row in small_cluster.bundles() if row.namespace == "shop/orders"]
    missing = {"beginning": 0, "middle": 1, "end": 3}
    rows = [
        dataclasses.replace(row, namespace=f"shop/{name}")
        for name, gone in missing.items()
        for index, row in enumerate(whole)
        if index != gone
    ]
    assert breaches("ranges_tile_the_ring", to_arrow(Bundle, whole + rows)) == [
        "namespace shop/beginning: a gap from 0x00000000 to 0x40000000",
        "namespace shop/end: a gap from 0xc0000000 to 0xffffffff",
        "namespace shop/middle: a gap from 0x40000000 to 0x80000000",
    ]


def test_range_inside_another_is_an_overlap_and_no_gap() -> None:
    first, second, *_ = (row for row in small_cluster.bundles() if row.namespace == "shop/orders")
    rows = [dataclasses.replace(first, range_upper=0xFFFFFFFF), second]
    expected = ["namespace shop/orders: an overlap at 0x40000000_0x80000000"]
    assert breaches("ranges_tile_the_ring", to_arrow(Bundle, rows)) == expected


def test_owner_that_is_not_registered_is_named_with_its_bundles() -> None:
    brokers = change(small_cluster.brokers(), "broker_id", B01, incarnation=None, state="Inactive")
    found = owners(brokers, small_cluster.bundles())
    assert found == [f"broker {B01} owns 3 bundles, such as {FIRST}, but is not registered"]


def test_bundle_in_flight_may_have_load_without_an_owner() -> None:
    rows = change(small_cluster.bundles(), "bundle", FIRST, owner=None, state="Assigning")
    assert breaches("load_has_an_owner", to_arrow(Bundle, rows)) == []


def test_imported_brokers_need_no_report_and_count_as_registered() -> None:
    brokers = [
        dataclasses.replace(row, reported_at=None, incarnation=None, load_manager="imported")
        for row in small_cluster.brokers()
    ]
    assert breaches("brokers_have_reports", to_arrow(Broker, brokers), without_report=[]) == []
    assert owners(brokers, small_cluster.bundles()) == []


def test_first_breaches_are_named_and_the_rest_is_counted() -> None:
    assert Finding(1, (Breach("one"),)).detail == "one"
    assert Finding(1203, (Breach("one"), Breach("two"), Breach("three"))).detail == "one; two; three (and 1,200 more)"


def test_parts_of_a_table_give_the_finding_of_the_whole() -> None:
    rows = [Breach("mild", 1.0), Breach("bad", 3.0), Breach("b", 2.0), Breach("a", 2.0)]
    any_rule = Rule("any", "any", "", lambda part: part, ())
    parts = [apply_rule(any_rule, part, {}) for part in (rows[:1], rows[1:])]
    whole = merge_findings(parts)
    assert (whole.count, [breach.detail for breach in whole.worst]) == (4, ["bad", "a", "b"])
    assert merge_findings([*parts, Finding(0, (), "a column is missing")]).error == "a column is missing"


def test_figure_that_is_no_number_counts_as_load_without_an_owner() -> None:
    rows = change(small_cluster.bundles(), "bundle", FIRST, owner=None, state="Free", msg_rate_in_per_s=float("nan"))
    assert len(breaches("load_has_an_owner", to_arrow(Bundle, rows))) == 1


def test_peak_may_rise_to_the_overload_line_only_where_bundles_have_to_move() -> None:
    rows = to_arrow(
        BalanceRow,
        [
            BalanceRow("b01", "b01", "cpu", 100, 50, 0, 40, 50, 0),
            BalanceRow("b02", "b01", "cpu", 100, 30, 80, 40, 30, 80),
            BalanceRow("b03", "b01", "bandwidth_in", 0, 30, 80, 0, 30, 80),
        ],
    )

    def found(may_rise: bool, line: float) -> list[str]:
        return breaches("plan_is_no_worse_than_before", rows, may_rise=may_rise, overload_line_percent=line)

    sentence = "cpu of broker b02 would be at 80.0 % of its limit, the highest before was 50.0 %"
    assert found(False, 85.0) == [sentence]
    assert found(True, 75.0) == [sentence]
    assert found(True, 85.0) == []
