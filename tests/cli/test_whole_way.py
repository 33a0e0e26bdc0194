"""The whole way by hand, on real parts: import or snapshot, plan, show, check, approve, apply, verify."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from support.commands import UNSIGNED, evenkeel, live_options
from support.fleets import running_fleet
from support.waiting import eventually, scaled

pytestmark = pytest.mark.spark

BENCH = Path(__file__).resolve().parents[2] / "benchmarks" / "clusters"


def judge(folder: Path, steps: Path) -> Any:
    done = subprocess.run(
        [sys.executable, str(BENCH / "judge.py"), str(folder), str(steps)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_imported_cluster_is_planned_into_the_band_with_the_same_id_on_any_master(tmp_path: Path) -> None:
    folder, lake = tmp_path / "skew", tmp_path / "lake"
    subprocess.run([sys.executable, str(BENCH / "generate.py"), "skew", "20", "960", "1", str(folder)], check=True)
    imported = evenkeel(
        *("import", "--brokers", folder / "brokers.csv", "--bundles", folder / "bundles.csv"),
        *("--policies", folder / "policies.json", "--cluster", "skew", "--lake", lake, "--json"),
    )
    assert imported.code == 0, imported.err
    plans = [
        evenkeel("plan", "--lake", lake, "--cluster", "skew", "--master", master, "--json", cwd=tmp_path)
        for master in ("local[1]", "local[2]")
    ]
    assert [plan.code for plan in plans] == [0, 0], plans
    first, second = (plan.document for plan in plans)
    assert first["plan_id"] == second["plan_id"]
    assert set(first) >= {
        *("plan_id", "plan_uri", "snapshot_id", "strategy", "steps", "balance"),
        *("bounds", "gap", "disruption", "violations", "seconds"),
    }
    shown = evenkeel("show", first["plan_id"], "--lake", lake, "--steps", "--json")
    (tmp_path / "steps.json").write_text(shown.out)
    verdict = judge(folder, tmp_path / "steps.json")
    assert (verdict["illegal_count"], verdict["moved_twice"]) == (0, 0)
    assert verdict["worst_after"] <= 1.06
    assert verdict["moves"] >= first["bounds"]["moves"] >= verdict["moves_lower_bound"]
    applied = evenkeel("apply", first["plan_id"], "--lake", lake, "--cluster", "skew", "--zookeeper", "127.0.0.1:1")
    assert applied.code == 1
    assert "has not passed the gate" in applied.err


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_running_cluster_goes_the_whole_way(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, pulsar_root: str, kind: str
) -> None:
    lake = ("--lake", tmp_path / "lake")
    live = live_options(zookeeper.connect_string, pulsar_root)
    with running_fleet(zookeeper, pulsar_root, load_manager=kind, brokers=6, bundles=192) as fleet:
        cluster = ("--cluster", fleet.settings.cluster)
        snapshot = evenkeel("snapshot", *live, *cluster, *lake, "--json")
        assert snapshot.code == 0, snapshot.err
        plan = evenkeel("plan", *lake, *cluster, "--json", cwd=tmp_path)
        assert plan.code == 0, plan.err
        plan_id, planned = plan.document["plan_id"], plan.document["steps"]["transfers"]
        assert planned > 0
        assert evenkeel("check", plan_id, *lake, "--json").document["passed"] is True
        assert evenkeel("approve", plan_id, *lake, "--config", UNSIGNED).code == 0
        rehearsal = evenkeel("apply", plan_id, *live, *cluster, *lake, "--dry-run", "--json", "--config", UNSIGNED)
        assert rehearsal.code == 0, rehearsal.err
        assert rehearsal.document["proved"] == planned
        run = evenkeel("apply", plan_id, *live, *cluster, *lake, "--json", "--config", UNSIGNED)
        assert run.code == 0, run.err
        assert (run.document["settled"], run.document["state"]) == (planned, "done")
        verified = evenkeel("verify", run.document["run_id"], *live, *lake, "--json")
    assert verified.code == 0, verified.err
    assert verified.document["passed"] is True
    assert (tmp_path / "lake" / "plans" / plan_id / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_broker_without_a_fresh_report_blocks_the_plan_but_not_the_snapshot(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, pulsar_root: str, kind: str
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text(f"broker_load_data_ttl_in_seconds = {scaled(2.0)}\n")
    lake = ("--lake", tmp_path / "lake", "--settings", settings)
    live = live_options(zookeeper.connect_string, pulsar_root)
    wishes = {"load_manager": kind, "brokers": 3, "bundles": 24, "report_interval_s": 0.2, "report_max_interval_s": 0.5}
    with running_fleet(zookeeper, pulsar_root, **wishes) as fleet:
        fleet.freeze_reports("b02.fleet:8080")
        cluster = ("--cluster", fleet.settings.cluster)

        def taken() -> Any:
            answer = evenkeel("snapshot", *live, *cluster, *lake, "--json")
            assert answer.code == 0, answer.err
            return answer.document

        missing = "brokers_without_report" if kind == "extensible" else "brokers_with_stale_report"
        assert eventually(lambda: taken()[missing] == ["b02.fleet:8080"], within_s=30.0)
    plan = evenkeel("plan", *lake, *cluster, cwd=tmp_path)
    assert (plan.code, plan.out) == (1, "")
    assert "the gate blocks snapshot" in plan.err
    assert "b02.fleet:8080" in plan.err
    assert not (tmp_path / "lake" / "plans").exists()
