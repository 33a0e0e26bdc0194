"""Jobs: they answer once, fail in one sentence, and plan the same by any master."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore, RequestStore
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.gates import SnapshotFrames, judge_plan
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.model.load import BundleProfile
from evenkeel.model.settings import Settings
from evenkeel_spark.artifacts import PROFILES, read_load_tables
from evenkeel_spark.decisions import DECISION_PREFIX
from evenkeel_spark.io import FrameStore, read_snapshot_table
from evenkeel_spark.job import JobContext, main, run
from evenkeel_spark.stated_errors import ERROR_PREFIX, find_stated_error
from evenkeel_spark.submit import JOBS, job_file, submit
from support.jobs import load_job
from support.lakes import (
    TAKEN_AT,
    make_policy,
    make_random_brokers,
    make_random_bundles,
    shift_load,
    write_request,
    write_snapshot,
)

SETTINGS = Settings(namespace_bundle_max_msg_rate=400.0, namespace_bundle_split_condition_hit_count_threshold=1)


def write_cluster(lake: Lake) -> str:
    """Three snapshots of five brokers, with a policy that has a node; answers the last one's id."""
    brokers = make_random_brokers(5, seed=2)
    bundles = make_random_bundles(brokers=5, bundles_per_broker=30, seed=2, namespaces=6)
    path = "/admin/clusters/test/namespaceIsolationPolicies"
    policies = [make_policy("isolation", {}, path=path, version=4)]
    last = None
    for ago, factor in ((2, 0.7), (1, 1.2), (0, 1.0)):
        moment = TAKEN_AT - timedelta(minutes=5 * ago)
        last = write_snapshot(lake, shift_load(bundles, factor), brokers, policies, taken_at=moment)
    assert last is not None
    return last.snapshot_id


def answers(lake: Lake, request_id: str) -> dict[str, Any]:
    return {job: RequestStore(lake).read_answer(request_id, job) for job in JOBS}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the output of submitted jobs goes."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory, logs: Path, spark: SparkSession) -> tuple[Lake, Lake]:
    """The same request served in two lakes: by one core, and by two."""
    folder = tmp_path_factory.mktemp("lakes")
    by_one, by_two = Lake(str(folder / "by one")), Lake(str(folder / "by two"))
    for lake in (by_one, by_two):
        write_request(lake, write_cluster(lake), settings=SETTINGS)
    for job in JOBS:
        submit(job, by_one.uri, "request-1", "local[1]", logs / f"{job}.log")
    for job in JOBS[:2]:
        run(job, load_job(job), by_two.uri, "request-1")
    submit("plan_transfers", by_two.uri, "request-1", "local[2]", logs / "by-two.log")
    return by_one, by_two


def test_one_core_and_two_give_the_same_plan(planned: tuple[Lake, Lake]) -> None:
    by_one, by_two = (answers(lake, "request-1") for lake in planned)
    assert by_one["plan_transfers"]["plan_id"] == by_two["plan_transfers"]["plan_id"]
    assert by_one["profile_load"]["profile_id"] == by_two["profile_load"]["profile_id"]
    assert by_one["find_split_candidates"]["rows"] == by_two["find_split_candidates"]["rows"] > 0


def test_one_core_and_two_give_the_same_plan_by_another_strategy_for_another_load(
    planned: tuple[Lake, Lake], spark: SparkSession, tmp_path: Path
) -> None:
    changes = {"planning_load": "peak", "bandwidth_model": "scaled", "bundle_unload_min_throughput_threshold": 0.0}
    settings = Settings.from_json(changes)
    for lake in planned:
        snapshot_id = answers(lake, "request-1")["plan_transfers"]["snapshot_id"]
        write_request(lake, snapshot_id, "request-peak", settings, strategy="threshold-shedder")
        for job in JOBS[:2]:
            run(job, load_job(job), lake.uri, "request-peak")
    submit("plan_transfers", planned[0].uri, "request-peak", "local[1]", tmp_path / "by-one.log")
    run("plan_transfers", load_job("plan_transfers"), planned[1].uri, "request-peak")
    first, second = (answers(lake, "request-peak")["plan_transfers"] for lake in planned)
    assert first["plan_id"] == second["plan_id"]
    assert first["metrics"]["strategy"] == "threshold-shedder"
    assert first["metrics"]["moves"] > 0


def test_gate_passes_a_plan_for_the_load_that_it_was_made_for(planned: tuple[Lake, Lake], spark: SparkSession) -> None:
    lake = planned[1]
    stored = PlanStore(lake).load(answers(lake, "request-1")["plan_transfers"]["plan_id"])
    manifest = SnapshotStore(lake).load(stored.plan.cluster, stored.plan.snapshot_id)
    tables = {name: read_snapshot_table(spark, lake, manifest, name) for name in manifest.tables}
    frames = SnapshotFrames(**tables, profile=read_load_tables(spark, lake, stored.plan.profile_id))
    verdict = judge_plan(spark, stored, frames, SETTINGS)
    checks = {check.name: check for check in verdict.checks}
    assert verdict.passed, verdict.blocking
    assert checks["balance_starts_at_the_snapshot"].passed, checks["balance_starts_at_the_snapshot"].detail


def test_decisions_are_in_the_log_and_in_the_answer(planned: tuple[Lake, Lake], logs: Path) -> None:
    answer = answers(planned[0], "request-1")["plan_transfers"]
    lines = [line for line in (logs / "plan_transfers.log").read_text().splitlines() if DECISION_PREFIX in line]
    *pools, plan = [json.loads(line.partition(DECISION_PREFIX)[2]) for line in lines]
    assert [pool["scope"] for pool in pools] == ["pool"]
    assert plan == {"scope": "plan", "plan_id": answer["plan_id"], **answer["metrics"]}
    stored = PlanStore(planned[0]).load(answer["plan_id"])
    assert plan["moves"] == stored.plan.step_counts["transfers"] > 0
    assert plan["bundles"] == pools[0]["bundles"] >= 150
    assert sum(plan["rejections"].values()) == len(stored.rejections)


def test_plan_says_what_pulsar_would_have_done(planned: tuple[Lake, Lake]) -> None:
    stored = PlanStore(planned[0]).load(answers(planned[0], "request-1")["plan_transfers"]["plan_id"])
    assert [row["strategy"] for row in stored.plan.counterfactual] == ["transfer-shedder", "threshold-shedder"]
    assert all(row["worst_before"] == stored.plan.curve[0]["worst"] for row in stored.plan.counterfactual)


def test_plan_names_what_it_was_made_of(planned: tuple[Lake, Lake]) -> None:
    lake = planned[0]
    answer = answers(lake, "request-1")
    stored = PlanStore(lake).load(answer["plan_transfers"]["plan_id"])
    assert stored.uri == answer["plan_transfers"]["plan_uri"]
    assert stored.plan.snapshot_id == answer["plan_transfers"]["snapshot_id"]
    assert stored.plan.profile_id == answer["profile_load"]["profile_id"]
    assert stored.plan.candidates_id == answer["find_split_candidates"]["candidates_id"]
    assert stored.plan.policy_versions == {"/admin/clusters/test/namespaceIsolationPolicies": 4}
    assert stored.steps


def test_committed_profile_is_read_back(planned: tuple[Lake, Lake], spark: SparkSession) -> None:
    answer = answers(planned[0], "request-1")["profile_load"]
    profiles = FrameStore(planned[0], PROFILES).read(spark, answer["profile_id"], "bundle_profiles", BundleProfile)
    assert profiles.count() == answer["rows"] == 150


def test_job_that_runs_twice_answers_once(planned: tuple[Lake, Lake]) -> None:
    lake = planned[1]

    def serve(job: JobContext) -> dict[str, Any]:
        raise AssertionError(f"{job.name} worked again")

    for job in JOBS:
        assert run(job, serve, lake.uri, "request-1") == answers(lake, "request-1")[job]


def test_run_that_lost_the_race_takes_the_first_answer(lake: Lake) -> None:
    write_request(lake, "some-snapshot")

    def serve(job: JobContext) -> dict[str, Any]:
        RequestStore(lake).answer("request-1", job.name, {"by": "the other run"})
        return {"by": "this run"}

    assert run("profile_load", serve, lake.uri, "request-1") == {"by": "the other run"}


def test_second_request_finds_the_committed_tables_and_writes_nothing(planned: tuple[Lake, Lake]) -> None:
    lake = planned[1]
    first = answers(lake, "request-1")
    write_request(lake, first["plan_transfers"]["snapshot_id"], "request-2", SETTINGS)
    before = lake.names(f"profiles/data/{first['profile_load']['profile_id']}")
    again = run("profile_load", load_job("profile_load"), lake.uri, "request-2")
    assert again | {"seconds": 0} == first["profile_load"] | {"seconds": 0}
    assert lake.names(f"profiles/data/{first['profile_load']['profile_id']}") == before


def test_request_that_is_not_there_ends_in_one_sentence(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    code = main("profile_load", load_job("profile_load"), ["--lake", lake.uri, "--request", "nobody"])
    printed = capfd.readouterr().err
    assert code == 1
    assert printed.count("\n") == 1
    fields = json.loads(printed.removeprefix(ERROR_PREFIX))
    assert fields["cause"].endswith("requests/nobody/request.json does not exist")
    assert fields["remedy"]


def test_plan_before_its_profile_is_refused(lake: Lake) -> None:
    write_request(lake, "some-snapshot")
    with pytest.raises(InputError, match="no answer of profile_load yet: run the job profile_load first"):
        run("plan_transfers", load_job("plan_transfers"), lake.uri, "request-1")


def test_submit_raises_the_error_that_the_job_stated(lake: Lake, tmp_path: Path) -> None:
    write_request(lake, "some-snapshot")
    with pytest.raises(InputError, match="no answer of profile_load yet: run the job profile_load first"):
        submit("plan_transfers", lake.uri, "request-1", "local[1]", tmp_path / "job.log")
    assert (tmp_path / "job.log").read_text().count(ERROR_PREFIX) == 1


def test_submit_ends_a_job_at_its_deadline(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"took longer than 0\.1 s and was ended"):
        submit("profile_load", lake.uri, "request-1", "local[1]", tmp_path / "job.log", deadline_s=0.1)


def test_log_without_a_stated_error_has_none(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("java.lang.OutOfMemoryError\n")
    assert find_stated_error(log.read_text()) is None


def test_job_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="no Spark job 'mow_the_lawn'"):
        job_file("mow_the_lawn")
