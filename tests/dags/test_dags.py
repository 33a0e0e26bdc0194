"""The Dags as Airflow parses them: no errors, the right order, cheap to import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.waiting import scaled

PROJECT = Path(__file__).resolve().parents[2]
DEADLINE_S = scaled(120.0)
# CPU time for all files together, without Airflow's own import; the actual figure is about a tenth of it.
PARSE_LIMIT_CPU_S = 3.0
HEAVY_MODULES = ("great_expectations", "pyspark", "kazoo", "scipy", "pandas", "pyarrow")

# Runs in a separate process: the first import fixes Airflow's home, and the user's must not be touched.
PARSE = """
import json, sys, time
import airflow.sdk, airflow.dag_processing.dagbag, airflow.plugins_manager
begin = time.process_time()
bag = airflow.dag_processing.dagbag.DagBag(sys.argv[1], load_op_links=False)
seconds = time.process_time() - begin
heavy = [name for name in json.loads(sys.argv[2]) if name in sys.modules]
airflow.plugins_manager.ensure_plugins_loaded()
from airflow.serialization.serialized_objects import DagSerialization
window = bag.dags["rebalance_window"]
stored = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(window))))
print(json.dumps({
    "schedule_as_stored": stored.timetable.summary,
    "cpu_s": seconds,
    "heavy": heavy,
    "errors": bag.import_errors,
    "plugins": [plugin["name"] for plugin in airflow.plugins_manager.get_plugin_info(["name"])],
    "plugin_errors": airflow.plugins_manager.get_import_errors(),
    "bare_modules": sorted(name for name in sys.modules if name in ("lake", "connection", "retry", "ports")),
    "dags": {
        dag_id: {
            "file": dag.fileloc,
            "doc": dag.doc_md,
            "schedule": dag.schedule if isinstance(dag.schedule, str | None) else dag.schedule.serialize(),
            "catchup": dag.catchup,
            "max_active_runs": dag.max_active_runs,
            "params": dag.params.dump(),
            "tasks": {
                task.task_id: {
                    "type": type(task).__name__,
                    "pool": task.pool,
                    "is_teardown": task.is_teardown,
                    "after": sorted(task.upstream_task_ids),
                    "before": sorted(task.downstream_task_ids),
                    "retries": task.retries,
                    "default_action": task.retry_policy and task.retry_policy.default.value,
                    "has_deadline": bool(task.execution_timeout or getattr(task, "response_timeout", None)),
                    "outlets": [asset.name for asset in task.outlets],
                    "application": getattr(task, "application", None),
                    "arguments": getattr(task, "application_args", None) and task.application_args[::2],
                    "connection": getattr(task, "_conn_id", None),
                    "defaults": getattr(task, "defaults", None),
                    "skips_all": getattr(task, "ignore_downstream_trigger_rules", None),
                }
                for task in dag.tasks
            },
        }
        for dag_id, dag in bag.dags.items()
    },
}))
"""


WINDOWS = """
[clusters.prod]
lake = "lake"

[[clusters.prod.windows]]
name = "Sunday nights"
days = ["sun"]
start = "02:00"
duration = "3h"
time_zone = "Europe/Berlin"
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return parse(tmp_path_factory.mktemp("airflow"), "")


def parse(home: Path, configuration: str) -> dict[str, Any]:
    """Parse all Dag files in a process of its own, with an evenkeel.toml."""
    (home / "evenkeel.toml").write_text(configuration)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    environment |= {
        "EVENKEEL_CONFIG": str(home / "evenkeel.toml"),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(PROJECT / "dags"), json.dumps(HEAVY_MODULES)],
        env=environment,
        cwd=home,
        timeout=DEADLINE_S,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def chain_of(tasks: dict[str, Any]) -> list[str]:
    """Return the task ids in a topological order."""
    order: list[str] = []
    while len(order) < len(tasks):
        order += sorted(name for name, task in tasks.items() if name not in order and set(task["after"]) <= set(order))
    return order


def test_dags_parse_without_errors_and_are_named_after_their_files(parsed: dict[str, Any]) -> None:
    assert parsed["errors"] == {}
    assert set(parsed["dags"]) == {file.stem for file in (PROJECT / "dags").glob("*.py")}
    for dag_id, dag in parsed["dags"].items():
        assert Path(dag["file"]).stem == dag_id
        assert "1. `" in dag["doc"]


def test_parsing_is_cheap(parsed: dict[str, Any]) -> None:
    assert parsed["heavy"] == []
    assert parsed["cpu_s"] < PARSE_LIMIT_CPU_S


def test_every_task_has_a_deadline_and_a_declared_retry(parsed: dict[str, Any]) -> None:
    for dag in parsed["dags"].values():
        for name, task in dag["tasks"].items():
            assert task["has_deadline"], name
            assert task["default_action"], name
            assert task["retries"] > 0, name


def test_load_is_collected_every_five_minutes_one_run_at_a_time(parsed: dict[str, Any]) -> None:
    dag = parsed["dags"]["collect_load"]
    assert dag["schedule"] == "*/5 * * * *"
    assert dag["catchup"] is False
    assert dag["max_active_runs"] == 1
    assert chain_of(dag["tasks"]) == ["restore_balancer", "take_snapshot", "check_snapshot"]
    assert dag["tasks"]["take_snapshot"]["after"] == [], "a snapshot is taken whether or not anything can be restored"


def test_only_the_gate_updates_the_asset(parsed: dict[str, Any]) -> None:
    tasks = parsed["dags"]["collect_load"]["tasks"]
    assert {name: task["outlets"] for name, task in tasks.items() if task["outlets"]} == {
        "check_snapshot": ["load_snapshot"]
    }


def test_rebalance_goes_from_request_to_verification_in_one_line(parsed: dict[str, Any]) -> None:
    dag = parsed["dags"]["rebalance_window"]
    assert dag["max_active_runs"] == 1
    assert chain_of(dag["tasks"]) == [
        *("check_request", "prepare_snapshot", "request_plan", "make_plan", "check_plan", "has_steps"),
        *("approve", "record_approval", "wait_for_window", "apply_plan", "verify_run"),
    ]


def test_every_cluster_of_the_configuration_has_its_own_dags(parsed: dict[str, Any], tmp_path: Path) -> None:
    found = parse(tmp_path, f"default_cluster = 'prod'\n{WINDOWS}\n[clusters.test]\nlake = 'lake'\n")
    assert (found["errors"], found["plugin_errors"]) == ({}, {})
    assert set(found["dags"]) == {name for dag in parsed["dags"] for name in (dag, f"{dag}__test")}
    schedules = {name: found["dags"][name]["schedule"] for name in ("rebalance_window", "rebalance_window__test")}
    assert schedules["rebalance_window"] is not None
    assert schedules["rebalance_window__test"] is None
    assert found["dags"]["drain_broker__test"]["tasks"]["apply_plan"]["pool"] == "evenkeel_writer__test"


def test_rebalance_is_scheduled_by_the_windows_of_the_configuration_as_airflow_stores_it(
    parsed: dict[str, Any], tmp_path: Path
) -> None:
    assert parsed["dags"]["rebalance_window"]["schedule"] is None
    scheduled = parse(tmp_path, WINDOWS)
    assert (scheduled["errors"], scheduled["plugin_errors"]) == ({}, {})
    assert scheduled["heavy"] == []
    assert scheduled["dags"]["rebalance_window"]["schedule"]["rules"][0]["name"] == "Sunday nights"
    assert scheduled["schedule_as_stored"] == "windows: Sunday nights"


@pytest.mark.parametrize(
    ("dag_id", "gate", "guard"),
    [
        ("rebalance_window", "check_plan", "has_steps"),
        ("drain_broker", "check_drain", "has_steps_or_is_empty"),
        ("rollback_plan", "check_rollback", None),
    ],
)
def test_every_plan_passes_gate_and_approval_before_it_is_applied(
    parsed: dict[str, Any], dag_id: str, gate: str, guard: str | None
) -> None:
    tasks = parsed["dags"][dag_id]["tasks"]
    assert tasks["approve"]["type"] == "PlanApprovalOperator"
    assert tasks["approve"]["defaults"] == ["Reject"]
    assert tasks["approve"]["skips_all"] is True
    assert tasks["check_request"]["after"] == []
    assert tasks["approve"]["after"] == sorted({"check_request", gate, guard} - {None})
    assert tasks["record_approval"]["after"] == sorted({"check_request", gate, "approve"})
    window = ["wait_for_window"] if dag_id == "rebalance_window" else []
    assert tasks["apply_plan"]["after"] == ["check_request", "record_approval", *window]
    assert tasks["apply_plan"]["pool"] == "evenkeel_writer"
    assert tasks["verify_run"]["after"] == ["apply_plan"]
    if guard is not None:
        assert tasks[guard]["skips_all"] is True


@pytest.mark.parametrize("dag_id", ["rebalance_window", "drain_broker", "rollback_plan"])
def test_tasks_that_write_are_not_retried_blindly(parsed: dict[str, Any], dag_id: str) -> None:
    tasks = parsed["dags"][dag_id]["tasks"]
    marks = {"mark_brokers", "remove_marks"} & tasks.keys()
    assert {name for name, task in tasks.items() if task["default_action"] == "fail"} == {
        "approve",
        "record_approval",
        "apply_plan",
        *marks,
    }


def test_plan_is_one_spark_application_of_the_repository_and_takes_lake_and_request(parsed: dict[str, Any]) -> None:
    tasks = parsed["dags"]["rebalance_window"]["tasks"]
    jobs = {name: task for name, task in tasks.items() if task["type"] == "SubmitPlanOperator"}
    assert set(jobs) == {"make_plan"}
    job = jobs["make_plan"]
    assert Path(job["application"]) == PROJECT / "spark/jobs/plan.py"
    assert Path(job["application"]).is_file()
    assert job["arguments"] == ["--lake", "--request"]
    assert job["connection"] == "spark_default"


def test_parameters_have_safe_defaults(parsed: dict[str, Any]) -> None:
    params = parsed["dags"]["rebalance_window"]["params"]
    assert {name: value for name, value in params.items() if value is not None} == {
        "strategy": "certified",
        "relief_only": False,
        "plan_only": False,
        "approval_timeout_minutes": 60,
    }


def test_airflow_loads_the_plugin_and_nothing_else_below_plugins(parsed: dict[str, Any]) -> None:
    assert "evenkeel" in parsed["plugins"]
    assert parsed["plugin_errors"] == {}
    # Without the line in .airflowignore Airflow runs every file of the package as a module of its bare name.
    assert parsed["bare_modules"] == []
    assert "evenkeel/" in (PROJECT / "plugins/.airflowignore").read_text().splitlines()


def test_drain_goes_from_the_marks_to_empty_brokers(parsed: dict[str, Any]) -> None:
    dag = parsed["dags"]["drain_broker"]
    assert chain_of(dag["tasks"]) == [
        *("check_request", "mark_brokers", "request_drain", "make_plan", "check_drain"),
        *("has_steps_or_is_empty", "approve", "record_approval", "apply_plan", "verify_run", "verify_empty"),
        "remove_marks",
    ]
    assert dag["tasks"]["remove_marks"]["is_teardown"], "it runs whatever happened after the marks were set"
    assert dag["params"] == {
        "brokers": [],
        "reason": None,
        "keep_marks": False,
        "deadline": None,
        "approval_timeout_minutes": 60,
    }
    assert dag["max_active_runs"] == 1


def test_rollback_goes_from_plan_to_verification_in_one_line(parsed: dict[str, Any]) -> None:
    dag = parsed["dags"]["rollback_plan"]
    assert chain_of(dag["tasks"]) == [
        *("check_request", "plan_rollback", "check_rollback"),
        *("approve", "record_approval", "apply_plan", "verify_run"),
    ]
    assert dag["params"] == {"run": "", "deadline": None, "approval_timeout_minutes": 60}
    assert dag["max_active_runs"] == 1
