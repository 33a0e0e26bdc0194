"""Metrics of plans and runs: in files, and pushed to a gateway."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evenkeel.adapters.push_gateway import push_metrics
from evenkeel.execution.measures import measure_plan, measure_run
from evenkeel.model import metrics
from evenkeel.model.errors import InputError
from evenkeel.model.metrics import PLAN_METRICS, RUN_METRICS, Sample, render_metrics
from evenkeel.model.plan import Rejection
from evenkeel.model.run import RunRecord, RunState, StepResult, StepState
from evenkeel.model.run_events import Decision, RunEvent
from evenkeel.model.settings import Settings
from evenkeel.model.verdict import Subject, Verdict
from support import small_plan
from support.approvals import apply_plan
from support.scenes import SETTINGS, Scene
from support.small_cluster import B01, B03
from support.waiting import scaled

LINE = re.compile(r'[a-z_]+\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*\} -?[0-9.e+]+')
STARTED, ENDED = "2026-01-31T03:00:00Z", "2026-01-31T03:01:30Z"
SETTLED = StepResult(0, small_plan.FIRST, B01, B03, StepState.SETTLED, "", 2.5)
RUN = RunRecord("run-1", "p" * 64, "lab", 7, RunState.DONE, STARTED, ENDED, False, (SETTLED,), "", "1.0")
EVENTS = [
    RunEvent(STARTED, 7, Decision.STARTED),
    RunEvent(STARTED, 7, Decision.SETTLED, kind="transfer"),
    RunEvent(ENDED, 7, Decision.WARNED, "careful"),
]


def values(samples: list[Sample]) -> dict[str, float]:
    return {"/".join([sample.metric.name, *sample.labels.values()]): sample.value for sample in samples}


def test_run_is_measured() -> None:
    found = values(measure_run(RUN, EVENTS, [small_plan.step(), small_plan.step(order=1)]))
    expected = {
        "run_info/run-1/pppppppppppp": 1,
        "run_state/running": 0,
        "run_state/done": 1,
        "run_state/stopped": 0,
        "run_state/lost": 0,
        "run_steps/settled": 1,
        "run_steps/skipped": 0,
        "run_steps/failed": 0,
        "run_steps/intended": 0,
        "run_steps/applied": 0,
        "run_steps/proved": 0,
        "run_planned_steps": 2,
        "run_seconds": 90,
        "run_slowest_step_seconds": 2.5,
        "run_moved_bytes_per_second": 40_000_000,
        "run_moved_sessions": 10,
        "run_epoch": 7,
        "run_warnings": 1,
        "run_ended_timestamp_seconds": 1_769_828_490,
        "run_last_success_timestamp_seconds": 1_769_828_490,
        "decisions_total/started/run": 1,
        "decisions_total/settled/transfer": 1,
        "decisions_total/warned/run": 1,
    }
    assert found == {f"evenkeel_{name}": value for name, value in expected.items()}
    assert {name.partition("/")[0] for name in found} == {metric.name for metric in RUN_METRICS}


def test_run_that_did_not_finish_is_no_success() -> None:
    found = values(measure_run(replace(RUN, state=RunState.LOST, results=()), EVENTS, []))
    assert "evenkeel_run_last_success_timestamp_seconds" not in found
    assert (found["evenkeel_run_state/lost"], found["evenkeel_run_moved_sessions"]) == (1, 0)


def test_plan_is_measured() -> None:
    plan = small_plan.plan()
    rejections = [Rejection("pool", "bundle", "t/n/0x0_0x1", None, "band", "so")] * 2
    found = values(measure_plan(plan, plan.plan_id, rejections, Verdict(Subject.PLAN, plan.plan_id, {}, (), "1.0")))
    assert {name.partition("/")[0] for name in found} == {metric.name for metric in PLAN_METRICS}
    assert found["evenkeel_plan_steps/transfer"] == 1
    assert found["evenkeel_plan_busiest_broker_ratio/cpu/before"] == 0.48
    assert found["evenkeel_plan_rejections/band"] == 2
    assert found["evenkeel_plan_gate_passed"] == 1


def test_text_is_what_prometheus_reads() -> None:
    hostile = Sample(metrics.PLAN_INFO, 1, {"plan": 'a"b\\c\nd', "strategy": "s"})
    text = render_metrics("lab", [hostile, *measure_run(RUN, EVENTS, [small_plan.step()])])
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in lines)
    assert lines[0] == r'evenkeel_plan_info{cluster="lab",plan="a\"b\\c\nd",strategy="s"} 1'
    assert text.endswith("\n")
    assert text.count("# TYPE evenkeel_run_steps gauge\n") == 1
    with pytest.raises(ValueError, match="has the labels"):
        Sample(metrics.PLAN_INFO, 1, {"plan": "a"})


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[tuple[str, str, str]], Callable[[int], None]]]:
    """A push gateway: its address, what was pushed, and how to make it answer with another status."""
    pushed: list[tuple[str, str, str]] = []
    status = [202]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            pushed.append((self.command, self.path, body))
            self.send_response(status[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", pushed, lambda wanted: status.__setitem__(0, wanted)
        server.shutdown()


def test_run_pushes_what_it_stores_and_its_plan(stage: Callable[..., Scene], gateway) -> None:  # type: ignore[no-untyped-def]
    url, pushed, _ = gateway
    scene = stage()
    plan_id = scene.plan(2)
    settings = replace(SETTINGS, metrics_push_url=url, metrics_push_timeout_s=scaled(10.0))
    run = apply_plan(scene.lake, plan_id, scene.connection, settings)
    ((method, path, text),) = pushed
    assert (method, path) == ("POST", f"/metrics/job/evenkeel/cluster/{run.cluster}")
    stored = scene.lake.read(f"runs/{run.run_id}/metrics.prom").decode()
    assert text.startswith(stored)
    assert f'evenkeel_plan_info{{cluster="{run.cluster}",plan="{plan_id[:12]}",strategy=' in text
    assert all(LINE.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))


def test_gateway_that_fails_is_only_a_warning(gateway, caplog: pytest.LogCaptureFixture) -> None:  # type: ignore[no-untyped-def]
    url, pushed, answer_with = gateway
    answer_with(400)
    push_metrics(url, "a=b", "evenkeel_run_epoch 1\n", scaled(10.0))
    push_metrics("http://127.0.0.1:1", "lab", "evenkeel_run_epoch 1\n", scaled(10.0))
    assert pushed[0][1] == "/metrics/job/evenkeel/cluster/a%3Db"
    refused, unreached = (record.getMessage() for record in caplog.records if "gateway" in record.getMessage())
    assert refused.endswith("refused the metrics (HTTP 400)")
    assert "http://127.0.0.1:1 did not take the metrics" in unreached


def test_gateway_that_never_answers_is_left_at_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        push_metrics(f"http://127.0.0.1:{silent.getsockname()[1]}", "lab", "evenkeel_run_epoch 1\n", 0.3)
    assert "did not take the metrics" in caplog.text


@pytest.mark.parametrize(
    "url", ["http://user:secret@gateway", "http://gateway/?token=secret", "gateway:9091", "ftp://x"]
)
def test_address_with_a_secret_or_without_a_host_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="metrics_push_url") as caught:
        Settings(metrics_push_url=url)
    if "secret" in url:
        assert "secret" not in str(caught.value)
