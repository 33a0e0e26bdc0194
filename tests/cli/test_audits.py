"""`evenkeel audit` and `evenkeel blame` on a lake in which a run, its plan and what came of it are known."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel import __version__
from evenkeel.adapters.lake.audits import AuditStore
from evenkeel.adapters.lake.learnt import CalibrationStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.plan import BrokerBalance
from evenkeel.model.run import RunRecord, RunState, StepResult, StepState
from evenkeel.model.snapshot import Broker, Bundle
from evenkeel.model.timestamps import format_time
from evenkeel.stages.audit import find_critical
from support.commands import evenkeel
from support.lakes import CLUSTER, make_broker, make_bundle, make_policy, write_snapshot
from support.plans import make_step, store_plan

pytestmark = pytest.mark.spark

NAMES = ("b1:8080", "b2:8080", "b3:8080")
COSTS = {"acme/cheap": 0.02, "acme/dear": 0.2}
"""Percent of a core that a message per second costs."""


def make_bundles(dear_share: dict[str, float]) -> list[Bundle]:
    """One bundle of each namespace on each broker; messages move between them."""
    parts = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xffffffff")
    rows = []
    for part, (broker, share) in zip(parts, dear_share.items(), strict=True):
        rows.append(make_bundle(f"acme/dear/{part}", broker, msg_rate_in_per_s=2000 * share))
        rows.append(make_bundle(f"acme/cheap/{part}", broker, msg_rate_in_per_s=2000 * (1 - share)))
    return rows


def make_brokers(bundles: list[Bundle], at: datetime) -> list[Broker]:
    """Brokers that measure what the messages really cost."""
    cpu = dict.fromkeys(NAMES, 16.0)
    for bundle in bundles:
        cpu[bundle.owner or ""] += bundle.msg_rate_in_per_s * COSTS[bundle.namespace]
    return [make_broker(name, cpu_usage_percent=cpu[name], reported_at=at) for name in NAMES]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Snapshots of three hours; two hours ago a run swapped a dear bundle, and since then all moved back."""
    lake, now = Lake(str(tmp_path / "lake")), datetime.now(UTC)
    shares = [dict(zip(NAMES, values, strict=True)) for values in ((0.9, 0.5, 0.1), (0.2, 0.6, 0.7), (0.5, 0.1, 0.9))]
    first_at = now - timedelta(hours=3)
    for place, minutes in enumerate((0, 20, 40)):
        bundles, at = make_bundles(shares[place]), first_at + timedelta(minutes=minutes)
        manifest = write_snapshot(lake, bundles, make_brokers(bundles, at), taken_at=at)
    step = make_step(0, bundles[0], "b2:8080", dict.fromkeys(NAMES, 1))
    balances = [BrokerBalance(name, "pool", "cpu", 800_000, 200_000, 200_000, 0) for name in NAMES]
    plan_id = store_plan(lake, manifest, [step], balances=balances)
    began, ended = now - timedelta(minutes=125), now - timedelta(hours=2)
    result = StepResult(0, step.bundle, "b1:8080", "b2:8080", StepState.SETTLED, "", 0.3)
    RunStore(lake).write(
        RunRecord(
            "run-1", plan_id, CLUSTER, 1, RunState.DONE, format_time(began), format_time(ended), False, (result,), "",
            __version__,
        )
    )  # fmt: skip
    moved = [dataclasses.replace(bundles[0], owner="b2:8080"), *bundles[1:]]
    reserve = {
        "everything": {
            "namespaces": ["acme/other"],
            "primary": ["b.*"],
            "secondary": [],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "100"},
            },
        }
    }
    for rows, ago, policies in (
        (moved, 105, []),
        (moved, 60, []),
        (bundles, 5, [make_policy("isolation", reserve)]),
    ):
        at = now - timedelta(minutes=ago)
        write_snapshot(lake, rows, make_brokers(rows, at), policies, taken_at=at)
    return lake


def test_audit_compares_learns_and_finds_and_a_critical_finding_is_exit_code_1(lake: Lake, tmp_path: Path) -> None:
    done = evenkeel("audit", "--lake", lake.uri, "--cluster", CLUSTER, "--master", "local[1]", "--json", cwd=tmp_path)
    assert done.code == 1, done.err
    told = {(row["severity"], row["kind"], row["subject"]) for row in done.document["findings"]}
    assert ("critical", "policy", "no-shared-broker") in told
    assert ("warning", "drift", "run-1") in told
    cpu = {row["horizon_s"]: row for row in done.document["figures"] if row["resource"] == "cpu"}
    assert cpu[900]["brokers"] == cpu[3600]["brokers"] == 3
    assert cpu[900]["note"] == ""
    weights = {
        row.key: row.weight_millis for row in CalibrationStore(lake).load(CLUSTER, done.document["cpu_calibration_id"])
    }
    assert weights["acme/dear"] > 4 * weights["acme/cheap"]
    assert done.document["oscillation"]["returns"] == 1
    stored = AuditStore(lake).load(CLUSTER)
    assert stored.audit_id == done.document["audit_id"]
    assert {"report.html", "metrics.prom"} <= set(lake.names(f"audits/cluster={CLUSTER}/{stored.audit_id}"))
    assert {finding.kind for finding in find_critical(lake, CLUSTER)} == {"policy", "prediction"}
    assert find_critical(lake, "another") == ()
    for row in stored.predictions:
        assert row.realised is not None
        parts = (row.placement_error, row.load_error, row.cpu_model_error)
        assert row.realised - row.predicted == sum(part or 0 for part in parts)


def test_blame_tells_that_the_run_moved_the_bundle(lake: Lake, tmp_path: Path) -> None:
    bundle = "acme/dear/0x00000000_0x40000000"
    done = evenkeel("blame", bundle, "--lake", lake.uri, "--cluster", CLUSTER, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "step 0 of run run-1" in done.out
    assert "the test moves it" in done.out


def test_period_that_is_none_is_refused(lake: Lake, tmp_path: Path) -> None:
    done = evenkeel("audit", "--lake", lake.uri, "--cluster", CLUSTER, "--since", "tomorrow", "--json", cwd=tmp_path)
    assert done.code == 1
    assert done.document["error"]["cause"] == "--since 'tomorrow' is not a period to look back on"
    assert lake.names("audits") == []
