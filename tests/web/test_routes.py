"""The page's routes in a real Airflow: who may call them, what they return, and that nothing upsets them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from evenkeel.local.local_airflow import LocalAirflow
from support.web_scene import MANY_STEPS, NOBODY, VIEWER, WebScene, client_of

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

API = "/evenkeel/api"
EXAMPLES = 12
UNKNOWN_PLAN, UNKNOWN_RUN = "0" * 64, "0" * 12 + "-000001"


@pytest.fixture(scope="module")
def operator(airflow: LocalAirflow) -> Iterator[httpx.Client]:
    with client_of(airflow, airflow.user) as client:
        yield client


@pytest.fixture(scope="module")
def viewer(airflow: LocalAirflow) -> Iterator[httpx.Client]:
    with client_of(airflow, VIEWER) as client:
        yield client


def reads(scene: WebScene) -> list[str]:
    """Every route that reads."""
    base, plan = f"{API}/clusters/{scene.cluster}", f"{API}/clusters/{scene.cluster}/plans/{scene.first_plan}"
    of_plan = [f"{plan}{part}" for part in ("", "/steps", "/rejections", "/report", "/balance.svg")]
    of_run = [f"{base}/runs/{UNKNOWN_RUN}", f"{base}/runs/{UNKNOWN_RUN}/rollback"]
    return [f"{API}/clusters", base, f"{base}/plans", f"{base}/runs", *of_plan, *of_run]


def writes(scene: WebScene) -> list[str]:
    return [f"{API}/clusters/{scene.cluster}/{verb}" for verb in ("stop", "resume")]


def test_nobody_without_a_token_gets_anything(airflow: LocalAirflow, scene: WebScene) -> None:
    with client_of(airflow, None) as stranger:
        assert {path: stranger.get(path).status_code for path in reads(scene)} == dict.fromkeys(reads(scene), 401)
        for path in writes(scene):
            assert stranger.post(path, json={"reason": "none"}).status_code == 401
        wrong = {"Authorization": "Bearer nonsense"}
        assert stranger.get(reads(scene)[0], headers=wrong).status_code in (401, 403)


def test_user_without_rights_to_the_dag_gets_nothing(airflow: LocalAirflow, scene: WebScene) -> None:
    with client_of(airflow, NOBODY) as client:
        assert {path: client.get(path).status_code for path in reads(scene)} == dict.fromkeys(reads(scene), 403)


def test_viewer_reads_but_orders_nothing(viewer: httpx.Client, operator: httpx.Client, scene: WebScene) -> None:
    for path in reads(scene):
        assert viewer.get(path).status_code == (404 if UNKNOWN_RUN in path else 200), path
    for path in writes(scene):
        assert viewer.post(path, json={"reason": "curious"}).status_code == 403
    (cluster,) = operator.get(f"{API}/clusters").json()["clusters"]
    assert cluster["live"]["stop"] is None
    assert (cluster["can_edit"], viewer.get(f"{API}/clusters").json()["clusters"][0]["can_edit"]) == (True, False)


def test_documentation_of_the_routes_is_not_served(operator: httpx.Client) -> None:
    assert [operator.get(f"/evenkeel/{name}").status_code for name in ("docs", "redoc", "openapi.json")] == [404] * 3


def test_cluster_has_its_balance_now(operator: httpx.Client, scene: WebScene) -> None:
    (cluster,) = operator.get(f"{API}/clusters").json()["clusters"]
    assert cluster["cluster"] == scene.cluster
    assert len(cluster["snapshot"]["brokers"]) == 6
    cpu = cluster["snapshot"]["balance"]["cpu"]
    assert cpu["max"] == max(broker["cpu"] for broker in cluster["snapshot"]["brokers"])
    assert cluster["live"]["error"] is None
    assert cluster["windows"] == []


def test_plans_are_paged_newest_first(operator: httpx.Client, scene: WebScene) -> None:
    base = f"{API}/clusters/{scene.cluster}/plans"
    whole = operator.get(base).json()
    assert [plan["plan_id"] for plan in whole["plans"]] == [scene.long_plan, scene.second_plan, scene.first_plan]
    assert not whole["has_more"]
    first, second = (operator.get(base, params={"offset": at, "limit": 2}).json() for at in (0, 2))
    assert (first["plans"] + second["plans"], first["has_more"]) == (whole["plans"], True)
    for wrong in ({"offset": -1}, {"limit": 0}, {"limit": 101}, {"offset": "x"}, {"limit": "1e9"}):
        assert operator.get(base, params=wrong).status_code == 422


def test_plan_tells_what_a_person_needs_to_decide(operator: httpx.Client, scene: WebScene) -> None:
    plan = operator.get(f"{API}/clusters/{scene.cluster}/plans/{scene.first_plan}").json()
    # Another test of the same process may have rejected it.
    assert plan["state"] in ("planned", "rejected")
    assert plan["steps"]["total"] > 0
    assert plan["gate"]["passed"]
    assert plan["curve"][-1]["moves"] == plan["steps"]["transfers"]
    assert plan["bounds"]["moves"] <= plan["steps"]["transfers"]
    assert sum(row["leaves"] for row in plan["brokers"]) == plan["steps"]["transfers"]
    busiest = max(row["cpu"][1] for row in plan["brokers"])
    assert busiest == pytest.approx(plan["balance"]["cpu"]["after"]["max"], abs=1e-5)
    assert plan["counterfactual"]


def test_ten_thousand_steps_come_whole_and_compressed(operator: httpx.Client, scene: WebScene) -> None:
    answer = operator.get(f"{API}/clusters/{scene.cluster}/plans/{scene.long_plan}/steps")
    table = answer.json()
    assert answer.headers["content-encoding"] == "gzip"
    assert (table["rows"], table["steps_in_all"]) == (MANY_STEPS, MANY_STEPS)
    assert {len(column) for column in table["columns"].values()} == {MANY_STEPS}
    assert table["columns"]["tenant"][3] == "tenant-3"


def test_report_can_run_no_script(operator: httpx.Client, scene: WebScene) -> None:
    answer = operator.get(f"{API}/clusters/{scene.cluster}/plans/{scene.first_plan}/report")
    policy = answer.headers["content-security-policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
    assert answer.headers["content-type"].startswith("text/html")
    assert scene.first_plan in answer.text


def test_picture_names_the_brokers_that_change(operator: httpx.Client, scene: WebScene) -> None:
    answer = operator.get(f"{API}/clusters/{scene.cluster}/plans/{scene.first_plan}/balance.svg")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert "b01.fleet:8080" in answer.text


@pytest.mark.parametrize(
    "path",
    [
        f"other/plans/{UNKNOWN_PLAN}",
        f"fleet/plans/{UNKNOWN_PLAN}",
        f"fleet/plans/{UNKNOWN_PLAN}/steps",
        f"fleet/runs/{UNKNOWN_RUN}",
        "..",
    ],
)
def test_what_is_not_there_is_not_found(operator: httpx.Client, scene: WebScene, path: str) -> None:
    assert operator.get(f"{API}/clusters/{path.replace('fleet', scene.cluster)}").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "fleet/plans/latest",
        "fleet/plans/..%2f..%2fetc",
        f"fleet/plans/{UNKNOWN_PLAN.upper()[:-1]}G",
        "fleet/runs/latest",
        "fl%00eet",
        "fl%20eet",
        "%F0%9F%92%A5",
    ],
)
def test_malformed_names_are_refused(operator: httpx.Client, scene: WebScene, path: str) -> None:
    assert operator.get(f"{API}/clusters/{path.replace('fleet', scene.cluster)}").status_code in (404, 422)


def test_stop_needs_a_reason_is_seen_by_all_and_can_be_released(
    operator: httpx.Client, viewer: httpx.Client, scene: WebScene
) -> None:
    stop, resume = writes(scene)
    for wrong in ({}, {"reason": ""}, {"reason": "  "}, {"reason": "x" * 501}, {"reason": 3}, []):
        assert operator.post(stop, json=wrong).status_code == 422
    other_site = {"Sec-Fetch-Site": "cross-site"}
    assert operator.post(stop, json={"reason": "forged"}, headers=other_site).status_code == 403
    assert operator.post(stop, json={"reason": "an incident"}).status_code == 200
    try:
        seen = viewer.get(f"{API}/clusters/{scene.cluster}").json()["live"]["stop"]
        assert seen["reason"] == "an incident"
        assert seen["who"].startswith("Airflow user operator on ")
    finally:
        released = operator.post(resume, json={"reason": "over"}).json()
    assert released["released"]["reason"] == "an incident"
    assert operator.get(f"{API}/clusters/{scene.cluster}").json()["live"]["stop"] is None


def test_app_is_served_by_a_digest_that_browsers_may_keep(operator: httpx.Client) -> None:
    plugins = operator.get("/api/v2/plugins").json()["plugins"]
    (own,) = [plugin for plugin in plugins if plugin["name"] == "evenkeel"]
    apps = {app["name"]: app for app in own["react_apps"]}
    assert {name: app["destination"] for name, app in apps.items()} == {"Evenkeel": "nav", "Plan": "dag_run"}
    answer = operator.get(f"/{apps['Evenkeel']['bundle_url']}")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]
    outdated = operator.get("/evenkeel/static/0123456789abcdef/page.js")
    assert (outdated.status_code, outdated.headers["cache-control"]) == (200, "no-store")
    for wrong in ("nothing.js", "..%2fapp.py", "%2e%2e"):
        assert operator.get(f"/evenkeel/static/0/{wrong}").status_code == 404


def call_with_anything(operation: Any, mode: Any, base_url: str, headers: dict[str, str], known: dict[str, str]) -> Any:
    """Call a route with what its schema allows, or forbids; returns how often it answered with which code."""
    import schemathesis
    from hypothesis import HealthCheck, given, settings

    codes: Counter[int] = Counter()

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def call(case: schemathesis.Case) -> None:
        if mode is schemathesis.GenerationMode.POSITIVE:
            # A random name is almost never one that there is.
            case.path_parameters.update({key: known[key] for key in known if key in case.path_parameters})
        answer = case.call(base_url=base_url, headers=headers)
        codes[answer.status_code] += 1
        assert answer.status_code < 500, f"{case.as_curl_command()} {answer.status_code} {answer.text}"

    call()
    return codes


def test_no_request_that_the_schema_allows_or_forbids_upsets_a_route(
    airflow: LocalAirflow, operator: httpx.Client, scene: WebScene
) -> None:
    import schemathesis

    from evenkeel.web.app import app

    known = {"cluster": scene.cluster, "plan_id": scene.first_plan}
    token = {"Authorization": operator.headers["Authorization"]}
    seen: dict[str, Counter[int]] = {}
    for found in schemathesis.openapi.from_dict(app.openapi()).get_all_operations():
        operation = found.ok()
        codes = seen.setdefault(f"{operation.method} {operation.path}", Counter())
        for mode in schemathesis.GenerationMode:
            codes.update(call_with_anything(operation, mode, f"{airflow.url}/evenkeel", token, known))
    operator.post(writes(scene)[1], json={"reason": "the test is over"})
    print(json.dumps({name: dict(codes) for name, codes in seen.items()}))
    assert len(seen) == len(reads(scene)) + len(writes(scene))
    assert all(codes[200] for name, codes in seen.items() if "{run_id}" not in name), seen
