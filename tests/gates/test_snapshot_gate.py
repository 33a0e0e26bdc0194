"""What blocks a snapshot, what only warns, and in which words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel.gates import judge_snapshot
from evenkeel.model.errors import RefusedError
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument
from evenkeel.model.verdict import Severity, Verdict
from support import small_cluster
from support.small_cluster import B01, B02, B03, TAKEN_AT, change

FIRST = "shop/orders/0x00000000_0x40000000"
SECOND = "shop/orders/0x40000000_0x80000000"


def judge(
    spark: SparkSession,
    broker_rows: Sequence[Broker] | None = None,
    bundle_rows: Sequence[Bundle] | None = None,
    policy_rows: Sequence[PolicyDocument] = (),
    **manifest: Any,
) -> Verdict:
    frames = small_cluster.frames(spark, broker_rows, bundle_rows, policy_rows)
    return judge_snapshot(spark, small_cluster.manifest(**manifest), frames, Settings())


def found(verdict: Verdict, severity: Severity) -> dict[str, str]:
    """Failed checks of a severity, by name."""
    return {check.name: check.detail for check in verdict.checks if not check.passed and check.severity == severity}


def test_good_snapshot_passes_without_a_warning_and_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    verdict = judge(spark)
    assert [check.detail for check in verdict.checks if not check.passed] == []
    assert verdict.subject == f"snapshot {small_cluster.manifest().snapshot_id}"
    assert {check.suite for check in verdict.checks} == {"snapshot_brokers", "snapshot_bundles", "snapshot_policies"}
    assert list(tmp_path.iterdir()) == []
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0
    assert "Calculating Metrics" not in capfd.readouterr().err
    assert Verdict.from_json(verdict.to_json(), "here") == verdict
    verdict.require_passed()


def test_faults_of_brokers_block(spark: SparkSession) -> None:
    rows = change(small_cluster.brokers(), "broker_id", B01, reported_at=TAKEN_AT - timedelta(seconds=2713))
    rows = change(rows, "broker_id", B02, cpu_usage_percent=float("nan"), memory_usage_mib=-1.0, state="Asleep")
    rows = change(rows, "broker_id", B03, reported_at=None)
    rows.append(rows[0])
    verdict = judge(spark, rows, brokers_without_report=(B03, "b04.fleet:8080"))
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


def test_faults_that_only_warn(spark: SparkSession) -> None:
    rows = change(small_cluster.brokers(), "broker_id", B02, cpu_limit_percent=None, bandwidth_in_limit_kbps=None)
    rows = change(rows, "broker_id", B03, bandwidth_out_usage_kbps=960_000.0)
    note = "no broker says its cores: all are taken as equal"
    verdict = judge(spark, rows, notes=(note,))
    assert verdict.passed
    assert found(verdict, Severity.WARNING) == {
        "limits_are_known": f"the limit of cpu and bandwidth in of broker {B02} is unknown",
        "bundle_load_matches_broker_load": (
            f"bandwidth out of broker {B03} is measured at 120.0 MB/s, its bundles sum to 10.0 MB/s"
        ),
        "nothing_was_assumed": note,
    }


def test_snapshot_without_brokers_blocks(spark: SparkSession) -> None:
    details = found(judge(spark, [], []), Severity.CRITICAL)
    assert details == {"snapshot_has_brokers": "The snapshot holds at least 1 broker, but 0 was found"}


def test_faults_of_bundles_block(spark: SparkSession) -> None:
    rows = change(small_cluster.bundles(), "bundle", FIRST, owner="b09.fleet:8080", state="Dozing")
    rows = change(rows, "bundle", SECOND, throughput_in_bytes_per_s=float("inf"), msg_rate_in_per_s=-3.0)
    idle = next(row for row in rows if row.bundle.startswith("shop/audit/0x0"))
    rows = change(rows, "bundle", idle.bundle, owner=None, state="Init")
    rows.append(dataclasses.replace(idle, owner=B03))
    rows.append(dataclasses.replace(idle, owner=B02))
    assert found(judge(spark, None, rows), Severity.CRITICAL) == {
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


def test_policies_that_cannot_be_read_block(spark: SparkSession) -> None:
    rows = [
        PolicyDocument("isolation", "", '{"pinned": {"namespaces": ["shop/.*"]}}'),
        PolicyDocument("failure_domain", "zone-1", "{"),
        PolicyDocument("resource_quota", "", "{}"),
    ]
    details = found(judge(spark, policy_rows=rows), Severity.CRITICAL)
    first, second, third = details["policies_are_readable"].split("; ")
    assert first == "a policy is of the unknown kind 'resource_quota'"
    assert second.startswith("failure_domain zone-1 is not JSON (")
    assert third == "isolation policy 'pinned' is malformed (KeyError('primary'))"


def test_what_cannot_be_judged_blocks(spark: SparkSession) -> None:
    frames = small_cluster.frames(spark)
    crippled = dataclasses.replace(frames, brokers=frames.brokers.drop("cpu_limit_percent"))
    verdict = judge_snapshot(spark, small_cluster.manifest(), crippled, Settings())
    details = found(verdict, Severity.CRITICAL)
    assert set(details) == {"broker_figures_are_sane", "limits_are_known"}
    assert details["limits_are_known"].startswith("limits_are_known could not be judged (")
