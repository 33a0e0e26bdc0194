"""Jobs: they answer once, fail in one sentence, and plan the same in this process and by spark-submit."""

from __future__ import annotations

import json
import logging
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.requests import RequestStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.approval import ApprovalRules
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.model.load import BundleProfile
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.settings import Settings
from evenkeel.stages.check import check_plan
from evenkeel_spark.application import SparkApplication
from evenkeel_spark.artifacts import PROFILES
from evenkeel_spark.job import JobContext, run
from evenkeel_spark.jobs import JOBS, run_jobs
from evenkeel_spark.lake_frames import read_frame
from evenkeel_spark.planning import DECISION_PREFIX
from evenkeel_spark.stated_errors import ERROR_PREFIX, find_stated_error
from evenkeel_spark.submission import describe_submission, submit
from support.jobs import load_driver
from support.lakes import (
    TAKEN_AT,
    make_policy,
    make_random_brokers,
    make_random_bundles,
    shift_load,
    write_request,
    write_snapshot,
)

pytestmark = pytest.mark.spark

SETTINGS = Settings(namespace_bundle_max_msg_rate=400.0, namespace_bundle_split_condition_hit_count_threshold=1)


def write_cluster(lake: Lake) -> str:
    """Three snapshots of five brokers, with a policy that has a node; returns the last one's id."""
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
    return {job: RequestStore(lake).read_answer(RequestStore(lake).load(request_id), job) for job in JOBS}


def ignore(_: str) -> None:
    pass


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the output of the submitted application goes."""
    return tmp_path_factory.mktemp("logs") / "plan.log"


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory, log: Path, spark: SparkSession) -> tuple[Lake, Lake]:
    """The same request served in two lakes: by spark-submit on one core, and by this process on two executors."""
    folder = tmp_path_factory.mktemp("lakes")
    by_submit, in_process = Lake(str(folder / "by submit")), Lake(str(folder / "in process"))
    for lake in (by_submit, in_process):
        write_request(lake, write_cluster(lake), settings=SETTINGS)
    submit(by_submit.uri, "request-1", "local[1]", log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenkeel_spark.jobs.MOST_BUNDLES_ON_DRIVER", 0)
        run_jobs(in_process.uri, "request-1", lambda: spark, ignore)
    return by_submit, in_process


def test_driver_and_executors_give_the_same_plan(planned: tuple[Lake, Lake]) -> None:
    by_submit, in_process = (answers(lake, "request-1") for lake in planned)
    assert by_submit["plan_transfers"]["plan_id"] == in_process["plan_transfers"]["plan_id"]
    assert by_submit["profile_load"]["profile_id"] == in_process["profile_load"]["profile_id"]
    assert by_submit["find_split_candidates"]["rows"] == in_process["find_split_candidates"]["rows"] > 0


def test_driver_and_executors_give_the_same_plan_by_another_strategy_for_another_load(
    planned: tuple[Lake, Lake], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"planning_load": "peak", "bandwidth_model": "scaled", "bundle_unload_min_throughput_threshold": 0.0}
    settings = Settings.from_json(changes)
    found = []
    for lake, most_on_driver in zip(planned, (0, 5_000), strict=True):
        monkeypatch.setattr("evenkeel_spark.jobs.MOST_BUNDLES_ON_DRIVER", most_on_driver)
        snapshot_id = answers(lake, "request-1")["plan_transfers"]["snapshot_id"]
        write_request(lake, snapshot_id, "request-peak", settings, strategy="threshold-shedder")
        found.append(run_jobs(lake.uri, "request-peak", lambda: spark, ignore))
    assert found[0]["plan_id"] == found[1]["plan_id"]
    assert found[0]["metrics"]["strategy"] == "threshold-shedder"
    assert found[0]["metrics"]["moves"] > 0


def test_gate_passes_a_plan_for_the_load_that_it_was_made_for(planned: tuple[Lake, Lake]) -> None:
    lake = planned[1]
    verdict = check_plan(lake, answers(lake, "request-1")["plan_transfers"]["plan_id"], "local[1]", ApprovalRules())
    checks = {check.name: check for check in verdict.checks}
    assert verdict.passed, verdict.blocking
    assert checks["balance_starts_at_the_snapshot"].passed, checks["balance_starts_at_the_snapshot"].detail


def test_decisions_are_in_the_log_and_in_the_answer(planned: tuple[Lake, Lake], log: Path) -> None:
    answer = answers(planned[0], "request-1")["plan_transfers"]
    lines = [line for line in log.read_text().splitlines() if DECISION_PREFIX in line]
    *pools, plan = [json.loads(line.partition(DECISION_PREFIX)[2]) for line in lines]
    assert [pool["scope"] for pool in pools] == ["pool"]
    assert plan == {"scope": "plan", "plan_id": answer["plan_id"], **answer["metrics"]}
    stored = PlanStore(planned[0]).load(answer["plan_id"])
    assert plan["moves"] == stored.plan.step_counts.transfers > 0
    assert plan["bundles"] == pools[0]["bundles"] >= 150
    assert sum(plan["rejections"].values()) == len(stored.rejections)


def test_plan_names_what_it_was_made_of(planned: tuple[Lake, Lake]) -> None:
    lake = planned[0]
    answer = answers(lake, "request-1")
    stored = PlanStore(lake).load(answer["plan_transfers"]["plan_id"])
    assert stored.uri == answer["plan_transfers"]["plan_uri"]
    assert stored.plan.snapshot_id == answer["plan_transfers"]["snapshot_id"]
    assert stored.plan.profile_id == answer["profile_load"]["profile_id"]
    assert stored.plan.candidates_id == answer["find_split_candidates"]["candidates_id"]
    assert stored.plan.policy_versions == {"/admin/clusters/test/namespaceIsolationPolicies": PolicyVersion(17, 4)}
    assert stored.steps


def test_committed_profile_is_read_back(planned: tuple[Lake, Lake], spark: SparkSession) -> None:
    answer = answers(planned[0], "request-1")["profile_load"]
    wanted = (planned[0], PROFILES, answer["profile_id"], "bundle_profiles", BundleProfile)
    assert read_frame(spark, *wanted).count() == answer["rows"] == 150


def no_session() -> SparkSession:
    raise AssertionError("Spark was asked for")


def test_jobs_that_run_twice_answer_once_and_need_no_spark(planned: tuple[Lake, Lake]) -> None:
    lake = planned[1]
    before = answers(lake, "request-1")
    assert run_jobs(lake.uri, "request-1", no_session, ignore) == before["plan_transfers"]
    assert answers(lake, "request-1") == before


def test_run_that_lost_the_race_takes_the_first_answer(lake: Lake) -> None:
    write_request(lake, "some-snapshot")

    def job(context: JobContext) -> dict[str, Any]:
        RequestStore(lake).answer(context.request, context.name, {"by": "the other run"})
        return {"by": "this run"}

    assert run("profile_load", job, lake.uri, "request-1", no_session) == {"by": "the other run"}


def test_second_request_finds_the_committed_tables_and_needs_no_spark(planned: tuple[Lake, Lake]) -> None:
    lake = planned[1]
    first = answers(lake, "request-1")
    write_request(lake, first["plan_transfers"]["snapshot_id"], "request-2", SETTINGS)
    before = lake.names(f"profiles/data/{first['profile_load']['profile_id']}")
    again = run_jobs(lake.uri, "request-2", no_session, ignore)
    assert again["plan_id"] == first["plan_transfers"]["plan_id"]
    assert lake.names(f"profiles/data/{first['profile_load']['profile_id']}") == before


def test_request_that_is_not_there_ends_in_one_sentence(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("evenkeel")
    handlers, level = list(logger.handlers), logger.level
    try:
        code = load_driver().main(["--lake", lake.uri, "--request", "nobody"])
    finally:
        logger.handlers, logger.level = handlers, level
    printed = capfd.readouterr().err
    assert code == 1
    assert printed.count("\n") == 1
    fields = json.loads(printed.removeprefix(ERROR_PREFIX))
    assert fields["cause"].endswith("requests/nobody/request.json does not exist")
    assert fields["remedy"]


def test_plan_before_its_profile_is_refused(lake: Lake) -> None:
    write_request(lake, "some-snapshot")
    with pytest.raises(InputError, match="no answer of profile_load yet: run the job profile_load first"):
        run("plan_transfers", JOBS["plan_transfers"], lake.uri, "request-1", no_session)


def test_submit_raises_the_error_that_the_application_stated(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"requests/request-1/request\.json does not exist"):
        submit(lake.uri, "request-1", "local[1]", tmp_path / "plan.log")
    assert (tmp_path / "plan.log").read_text().count(ERROR_PREFIX) == 1


def test_submit_stops_an_application_at_its_deadline(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"took longer than 0\.1 s and was stopped"):
        submit(lake.uri, "request-1", "local[1]", tmp_path / "plan.log", deadline_s=0.1)


def test_run_in_this_process_stops_at_its_deadline_too(spark: SparkSession, tmp_path: Path) -> None:
    application = SparkApplication("any", "local[1]")
    application._session = spark
    failed: list[str] = []
    ended = threading.Event()

    def compute_for_ever() -> None:
        try:
            spark.range(10**12).selectExpr("sum(sqrt(id))").collect()
        except Exception as error:
            failed.append(str(error))
        ended.set()

    with pytest.raises(UnavailableError, match=r"planning took longer than 2 s and was stopped: read .*plan\.log"):
        application.run(compute_for_ever, tmp_path / "plan.log", deadline_s=2.0)
    assert ended.wait(60), "cancelling frees the executors"
    assert "cancel" in failed[0].lower()


def test_failure_of_spark_in_this_process_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    application, log = SparkApplication("any", "local[1]"), tmp_path / "plan.log"
    with pytest.raises(UnavailableError, match=r"^Spark failed \(.*nowhere.*\): read .*plan\.log$"):
        application.run(lambda: spark.read.parquet(str(tmp_path / "nowhere")), log, deadline_s=120.0)
    assert "Traceback" in log.read_text()
    with pytest.raises(InputError, match="^no plan: make one$"):
        application.run(lambda: refuse(), log, deadline_s=120.0)


def refuse() -> None:
    raise InputError("no plan", "make one")


def test_log_without_a_stated_error_has_none() -> None:
    assert find_stated_error("java.lang.OutOfMemoryError\n") is None


def test_one_submission_serves_the_command_line_and_airflow(tmp_path: Path) -> None:
    submission = describe_submission("file:///lake", "request-1").with_packages(tmp_path)
    command, options = submission.command("spark://far:7077"), submission.operator_arguments()
    assert command[1:3] == ["--master", "spark://far:7077"]
    archive = command[command.index("--py-files") + 1]
    assert archive == options["py_files"]
    assert Path(archive).is_file()
    assert command[-5:] == [options["application"], *options["application_args"]]
    assert options["application_args"] == ["--lake", "file:///lake", "--request", "request-1"]
