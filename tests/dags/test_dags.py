"""Both Dags as Airflow parses them: no errors, the right order, cheap to import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DEADLINE_S = 120.0
# In CPU time, on top of Airflow itself, both files together; it is about a tenth of that.
PARSE_LIMIT_CPU_S = 3.0
HEAVY_MODULES = ("great_expectations", "pyspark", "kazoo", "scipy", "pandas", "pyarrow")

# A process of its own: an Airflow home is fixed by the first import, and the user's must not be touched.
PARSE = """
import json, sys, time
import airflow.sdk, airflow.dag_processing.dagbag, airflow.plugins_manager
begin = time.process_time()
bag = airflow.dag_processing.dagbag.DagBag(sys.argv[1], load_op_links=False)
seconds = time.process_time() - begin
heavy = [name for name in json.loads(sys.argv[2]) if name in sys.modules]
airflow.plugins_manager.ensure_plugins_loaded()
print(json.dumps({
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
            "schedule": dag.schedule,
            "catchup": dag.catchup,
            "max_active_runs": dag.max_active_runs,
            "params": dag.params.dump(),
            "tasks": {
                task.task_id: {
                    "type": type(task).__name__,
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


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("airflow")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    environment |= {
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
    """The task ids in an order that respects what comes after what."""
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
    assert chain_of(dag["tasks"]) == ["take_snapshot", "check_snapshot"]


def test_asset_is_updated_by_the_gate_alone(parsed: dict[str, Any]) -> None:
    tasks = parsed["dags"]["collect_load"]["tasks"]
    assert {name: task["outlets"] for name, task in tasks.items() if task["outlets"]} == {
        "check_snapshot": ["load_snapshot"]
    }


def test_window_goes_from_request_to_verification_in_one_line(parsed: dict[str, Any]) -> None:
    dag = parsed["dags"]["rebalance_window"]
    assert dag["max_active_runs"] == 1
    assert chain_of(dag["tasks"]) == [
        "request_plan",
        "profile_load",
        "find_split_candidates",
        "plan_transfers",
        "check_plan",
        "has_steps",
        "approve",
        "record_approval",
        "apply_plan",
        "verify_run",
    ]


def test_nothing_is_applied_past_gate_and_approval(parsed: dict[str, Any]) -> None:
    tasks = parsed["dags"]["rebalance_window"]["tasks"]
    assert tasks["apply_plan"]["after"] == ["record_approval"]
    assert tasks["approve"]["type"] == "PlanApprovalOperator"
    assert tasks["approve"]["defaults"] == ["Reject"]
    assert tasks["approve"]["skips_all"] is True
    assert tasks["has_steps"]["skips_all"] is True
    assert "approve" in tasks["record_approval"]["after"]
    assert "check_plan" in tasks["approve"]["after"]


def test_writers_are_not_retried_blindly(parsed: dict[str, Any]) -> None:
    tasks = parsed["dags"]["rebalance_window"]["tasks"]
    assert {name for name, task in tasks.items() if task["default_action"] == "fail"} == {
        "approve",
        "record_approval",
        "apply_plan",
    }


def test_spark_jobs_are_files_of_the_repository_and_take_lake_and_request(parsed: dict[str, Any]) -> None:
    tasks = parsed["dags"]["rebalance_window"]["tasks"]
    jobs = {name: task for name, task in tasks.items() if task["type"] == "SparkSubmitOperator"}
    assert set(jobs) == {"profile_load", "find_split_candidates", "plan_transfers"}
    for name, job in jobs.items():
        assert Path(job["application"]) == PROJECT / "spark/jobs" / f"{name}.py"
        assert Path(job["application"]).is_file()
        assert job["arguments"] == ["--lake", "--request"]
        assert job["connection"] == "spark_default"


def test_parameters_have_safe_defaults(parsed: dict[str, Any]) -> None:
    params = parsed["dags"]["rebalance_window"]["params"]
    assert params == {"snapshot": None, "strategy": "certified", "approval_timeout_minutes": 60}


def test_airflow_loads_the_plugin_and_nothing_else_below_plugins(parsed: dict[str, Any]) -> None:
    assert "evenkeel" in parsed["plugins"]
    assert parsed["plugin_errors"] == {}
    # Without the line in .airflowignore Airflow runs every file of the package as a module of its bare name.
    assert parsed["bare_modules"] == []
    assert "evenkeel/" in (PROJECT / "plugins/.airflowignore").read_text().splitlines()


def test_drain_goes_from_the_marks_to_empty_brokers(parsed: dict[str, Any]) -> None:
    dag = parsed["dags"]["drain_broker"]
    assert chain_of(dag["tasks"]) == [
        *("mark_brokers", "request_drain", "profile_load", "find_split_candidates", "plan_transfers", "check_plan"),
        *("has_steps_or_is_empty", "approve", "record_approval", "apply_plan", "verify_run", "verify_empty"),
    ]
    assert dag["params"] == {"brokers": [], "deadline": None, "approval_timeout_minutes": 60}
    assert dag["tasks"]["mark_brokers"]["default_action"] == "fail", "what touches the cluster is not retried blindly"


def test_rollback_goes_past_gate_and_approval(parsed: dict[str, Any]) -> None:
    dag = parsed["dags"]["rollback_plan"]
    assert chain_of(dag["tasks"]) == [
        *("plan_rollback", "check_rollback", "approve", "record_approval", "apply_plan", "verify_run")
    ]
    assert dag["params"] == {"run": "", "approval_timeout_minutes": 60}
    assert (dag["max_active_runs"], dag["tasks"]["approve"]["defaults"]) == (1, ["Reject"])
