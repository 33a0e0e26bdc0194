"""What blocks a snapshot, what only warns, and in which words."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from evenkeel.gates.snapshot_gate import judge_snapshot
from evenkeel.model.errors import RefusedError
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument
from evenkeel.model.verdict import Severity, Verdict
from support import small_cluster
from support.small_cluster import B01, B02, B03, TAKEN_AT, change

FIRST = "shop/orders/0x00000000_0x40000000"
SECOND = "shop/orders/0x40000000_0x80000000"


def judge(
    broker_rows: Sequence[Broker] | None = None,
    bundle_rows: Sequence[Bundle] | None = None,
    policy_rows: Sequence[PolicyDocument] = (),
    **manifest: Any,
) -> Verdict:
    tables = small_cluster.tables(broker_rows, bundle_rows, policy_rows)
    return judge_snapshot(small_cluster.manifest(**manifest), tables, Settings())


def found(verdict: Verdict, severity: Severity) -> dict[str, str]:
    """Failed checks of a severity, by name."""
    return {check.name: check.detail for check in verdict.checks if not check.passed and check.severity == severity}


def test_good_snapshot_passes_without_a_warning() -> None:
    verdict = judge()
    assert [check.detail for check in verdict.checks if not check.passed] == []
    assert verdict.subject == f"snapshot {small_cluster.manifest().snapshot_id}"
    assert {check.suite for check in verdict.checks} == {"snapshot_brokers", "snapshot_bundles", "snapshot_policies"}
    assert Verdict.from_json(verdict.to_json(), "here") == verdict
    verdict.require_passed()


def test_faults_of_brokers_block() -> None:
    rows = change(small_cluster.brokers(), "broker_id", B01, reported_at=TAKEN_AT - timedelta(seconds=2713))
    rows = change(rows, "broker_id", B02, cpu_usage_percent=float("nan"), memory_usage_mib=-1.0, state="Asleep")
    rows = change(rows, "broker_id", B03, reported_at=None)
    rows.append(rows[0])
    verdict = judge(rows, brokers_without_report=(B03, "b04.fleet:8080"))
    assert found(verdict, Severity.CRITICAL) == {
        "broker_states_are_known": f"broker {B02} is in the unknown state Asleep",
        "brokers_are_listed_once": f"broker {B01} is listed 2 times",
        "brokers_have_reports": f"broker {B03} has no load report; broker b04.fleet:8080 has no load report",
        "reports_are_fresh": "; ".join([f"report of broker {B01} is 2,713 s old, the limit is 1,800 s"] * 2),
        "broker_figures_are_sane": (
            f"cpu_usage_percent of broker {B02} is NaN; memory_usage_mib of broker {B02} is -1.0"
        ),
    }
    with pytest.raises(RefusedError, match=r"the gate blocks snapshot 20260131T030000Z-.*unknown state Asleep \(and 4"):
        verdict.require_passed()


def isolate_first() -> PolicyDocument:
    """The first broker is a pool of its own."""
    rule = {"namespaces": ["none/.*"], "primary": [B01.rpartition(":")[0]], "secondary": []}
    rule |= {"auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}}}  # type: ignore[dict-item]
    return PolicyDocument("isolation", "", json.dumps({"alone": rule}))


def test_broker_that_nobody_hears_blocks_only_if_every_pool_has_one() -> None:
    rows = change(small_cluster.brokers(), "broker_id", B01, state="Initial", reported_at=None)
    apart = judge(rows, policy_rows=[isolate_first()], brokers_without_report=(B01,))
    assert apart.passed
    assert found(apart, Severity.WARNING)["brokers_are_heard"] == (
        f"broker {B01} has no fresh load report: its pool is not planned"
    )
    together = judge(rows, brokers_without_report=(B01,))
    assert found(together, Severity.CRITICAL) == {
        "some_pool_is_known": f"no pool can be planned: broker {B01} has no fresh load report"
    }


@pytest.mark.parametrize("reported_at", [None, TAKEN_AT - timedelta(hours=3)])
def test_broker_that_is_being_drained_needs_no_load_report(reported_at: datetime | None) -> None:
    rows = change(small_cluster.brokers(), "broker_id", B01, state="Stopping", reported_at=reported_at)
    assert judge(rows, brokers_without_report=(B01,)).passed


def test_faults_that_only_warn() -> None:
    rows = change(small_cluster.brokers(), "broker_id", B02, cpu_limit_percent=None, bandwidth_in_limit_kbps=None)
    rows = change(rows, "broker_id", B03, bandwidth_out_usage_kbps=960_000.0)
    note = "no broker says its cores: all are taken as equal"
    verdict = judge(rows, notes=(note,))
    assert verdict.passed
    assert found(verdict, Severity.WARNING) == {
        "limits_are_known": f"the limit of cpu and bandwidth in of broker {B02} is unknown",
        "bundle_load_matches_broker_load": (
            f"bandwidth out of broker {B03} is measured at 120.0 MB/s, its bundles sum to 10.0 MB/s"
        ),
        "nothing_was_assumed": note,
    }


def test_snapshot_without_brokers_blocks() -> None:
    details = found(judge([], []), Severity.CRITICAL)
    assert details == {"snapshot_has_brokers": "The snapshot holds at least 1 broker, but 0 was found"}


def test_faults_of_bundles_block() -> None:
    rows = change(small_cluster.bundles(), "bundle", FIRST, owner="b09.fleet:8080", state="Dozing")
    rows = change(rows, "bundle", SECOND, throughput_in_bytes_per_s=float("inf"), msg_rate_in_per_s=-3.0)
    idle = next(row for row in rows if row.bundle.startswith("shop/audit/0x0"))
    rows = change(rows, "bundle", idle.bundle, owner=None, state="Init")
    rows.append(dataclasses.replace(idle, owner=B03))
    rows.append(dataclasses.replace(idle, owner=B02))
    assert found(judge(None, rows), Severity.CRITICAL) == {
        "bundle_states_are_known": f"bundle {FIRST} is in the unknown state Dozing",
        "bundles_are_listed_once": f"bundle {idle.bundle} has the owners {B02} and {B03}",
        "ranges_tile_the_ring": "; ".join(["namespace shop/audit: an overlap at 0x00000000_0x80000000"] * 2),
        "owners_are_registered": f"broker b09.fleet:8080 owns bundle {FIRST}, but is not among the brokers",
        "load_has_an_owner": (
            f"bundle {idle.bundle} has load (10 topics, 10,000,000 bytes/s in, 10,000,000 bytes/s out) but no owner"
        ),
        "bundle_figures_are_sane": (
            f"msg_rate_in_per_s of bundle {SECOND} is -3.0; throughput_in_bytes_per_s of bundle {SECOND} is Infinity"
        ),
    }


def test_policies_that_cannot_be_read_block() -> None:
    rows = [
        PolicyDocument("isolation", "", '{"pinned": {"namespaces": ["shop/.*"]}}'),
        PolicyDocument("failure_domain", "zone-1", "{"),
        PolicyDocument("resource_quota", "", "{}"),
    ]
    details = found(judge(policy_rows=rows), Severity.CRITICAL)
    first, second, third = details["policies_are_readable"].split("; ")
    assert first == "a policy is of the unknown kind 'resource_quota'"
    assert second.startswith("failure_domain zone-1 is not JSON (")
    assert third == "isolation policy 'pinned' is malformed (KeyError('primary'))"


def test_what_cannot_be_judged_blocks() -> None:
    tables = small_cluster.tables()
    crippled = tables | {"brokers": tables["brokers"].drop_columns(["cpu_limit_percent"])}
    verdict = judge_snapshot(small_cluster.manifest(), crippled, Settings())
    details = found(verdict, Severity.CRITICAL)
    assert set(details) == {"broker_figures_are_sane", "limits_are_known"}
    assert details["limits_are_known"].startswith("limits_are_known could not be judged (")
