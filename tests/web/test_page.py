"""The page in a real browser: a person finds a plan, looks at it, decides, watches the run and stops it."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.local.local_airflow import LocalAirflow
from support.waiting import scaled, wait_for
from support.web_scene import DAG_ID, MANY_STEPS, OTHER_DAG_ID, PROJECT, VIEWER, WebScene, password_of

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

AXE = next(iter(sorted((PROJECT / ".evenkeel" / "browser").glob("axe-core-*.min.js"))), None)
SCREENSHOTS_VARIABLE = "EVENKEEL_SCREENSHOTS"
PICTURES = PROJECT / "docs" / "images"
VIEWPORT: Any = {"width": 1440, "height": 960}
STEP_TIMEOUT_S = 30.0
RUN_DEADLINE_S = 180.0
MOST_ROWS_DRAWN = 120

LogIn = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = (os.environ.get("EVENKEEL_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    assert found is not None, "no Chromium: run infra/setup/browser"
    with sync_playwright() as playwright:
        # The sandbox needs rights that a container does not give to root.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def log_in(browser: Browser, airflow: LocalAirflow) -> Iterator[LogIn]:
    """Opens a page as a user; whatever it asks from elsewhere, or complains about, fails the test."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []
    host = urlsplit(airflow.url).netloc

    def note_request(url: str) -> None:
        if urlsplit(url).scheme in ("http", "https", "ws", "wss") and urlsplit(url).netloc != host:
            faults.append(f"asked {url}")

    def open_page(user: str = airflow.user, color_scheme: Any = "light") -> Page:
        context = browser.new_context(viewport=VIEWPORT, color_scheme=color_scheme)
        contexts.append(context)
        expect.set_options(timeout=1000 * scaled(STEP_TIMEOUT_S))
        context.set_default_timeout(1000 * scaled(STEP_TIMEOUT_S))
        page = context.new_page()
        page.on("request", lambda request: note_request(request.url))
        page.on("pageerror", lambda error: faults.append(f"raised {error}"))
        page.goto(f"{airflow.url}/auth/login")
        page.get_by_label("Username").fill(user)
        page.get_by_label("Password").fill(password_of(airflow, user))
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "login" not in url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def page(log_in: LogIn) -> Page:
    return log_in()


def go(page: Page, airflow: LocalAirflow, **place: str) -> Locator:
    """Open the page at a place; returns the app's own part of it."""
    query = "&".join(f"{key}={quote(value)}" for key, value in place.items())
    page.goto(f"{airflow.url}/plugin/evenkeel?{query}")
    return page.get_by_role("region", name="Evenkeel")


def go_to_plan(page: Page, airflow: LocalAirflow, scene: WebScene, plan_id: str) -> Locator:
    return go(page, airflow, cluster=scene.cluster, view="plan", plan=plan_id)


def choose(page: Page, name: str) -> None:
    page.get_by_role("tablist", name="Parts of the plan").get_by_role("tab", name=name, exact=True).click()


def picture(page: Page, name: str) -> None:
    """Keep what is on the screen for the documentation, if that is asked for."""
    if os.environ.get(SCREENSHOTS_VARIABLE):
        page.screenshot(path=PICTURES / f"{name}.png")


def find_barriers(page: Page) -> list[str]:
    """What axe-core finds that is serious or worse in the app's own part of the page."""
    assert AXE is not None, "no axe-core: run infra/setup/browser .evenkeel/browser"
    page.evaluate(Path(AXE).read_text())
    found = page.evaluate("axe.run({include: ['.ek']}, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']} {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def ask_about(airflow: LocalAirflow, plan_id: str) -> str:
    """Start a run that asks about a plan; returns its id once the question can be answered."""
    run_id = airflow.trigger(DAG_ID, {"plan_id": plan_id})
    wait_for(lambda: bool(airflow.pending_approvals(DAG_ID, run_id)), "the question is asked", RUN_DEADLINE_S)
    return run_id


def test_a_person_finds_the_plans_of_a_cluster(page: Page, airflow: LocalAirflow, scene: WebScene) -> None:
    page.get_by_role("link", name="Evenkeel").click()
    app = page.get_by_role("region", name="Evenkeel")
    expect(app.get_by_role("heading", name=f"Cluster {scene.cluster}")).to_be_visible()
    brokers = app.get_by_role("table", name="Load of each broker now, the busiest first")
    expect(brokers.get_by_role("row")).to_have_count(7)
    picture(page, "page-cluster")
    app.get_by_role("link", name="Plans").click()
    plans = app.get_by_role("table", name=f"Plans for {scene.cluster}")
    expect(plans.get_by_role("row")).to_have_count(4)
    plans.get_by_role("link", name=scene.first_plan[:12]).click()
    expect(app.get_by_role("heading", level=1)).to_contain_text(f"Cluster {scene.cluster}:")
    page.go_back()
    expect(plans).to_be_visible()


def test_plan_shows_balance_certificate_and_what_a_shorter_one_is_worth(
    page: Page, airflow: LocalAirflow, scene: WebScene
) -> None:
    app = go_to_plan(page, airflow, scene, scene.first_plan)
    bar = app.get_by_role("img", name="b01.fleet:8080, CPU")
    expect(bar).to_have_attribute("aria-label", re.compile("% before, .* % after"))
    picture(page, "page-plan")
    choose(page, "Certificate")
    expect(app.get_by_role("table", name="This plan against lower bounds")).to_be_visible()
    slider = app.get_by_role("slider")
    told = app.get_by_text(re.compile("^The first"))
    whole = told.inner_text()
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(told).not_to_have_text(whole)
    expect(app.get_by_role("button", name="Plan again with at most")).to_be_visible()
    picture(page, "page-certificate")
    choose(page, "Report")
    report = page.frame_locator("iframe.report")
    expect(report.get_by_text(scene.first_plan).first).to_be_visible()


def test_of_ten_thousand_steps_only_those_in_view_are_drawn(page: Page, airflow: LocalAirflow, scene: WebScene) -> None:
    app = go_to_plan(page, airflow, scene, scene.long_plan)
    choose(page, "Steps")
    grid = app.get_by_role("treegrid", name="Steps")
    expect(grid).to_be_visible()
    assert int(grid.get_attribute("aria-rowcount") or 0) > MANY_STEPS
    assert grid.get_by_role("row").count() < MOST_ROWS_DRAWN
    started = time.monotonic()
    app.get_by_role("searchbox").fill("reason 4321 ")
    expect(app.get_by_text("1 step of 10,000")).to_be_visible()
    print(f"found within {time.monotonic() - started:.2f} s")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(app.get_by_text("reason 4321 in words")).to_be_visible()
    picture(page, "page-steps")
    app.get_by_role("searchbox").fill("")
    app.get_by_label("Group by").select_option("tenant")
    expect(grid.get_by_role("row", name="tenant-0").first).to_be_visible()
    grid.focus()
    page.keyboard.press("End")
    active = page.locator(f"[id='{grid.get_attribute('aria-activedescendant')}']")
    expect(active).to_be_in_viewport()


def test_plan_is_rejected_with_a_reason_on_the_tab_of_its_run(
    page: Page, airflow: LocalAirflow, scene: WebScene
) -> None:
    run_id = ask_about(airflow, scene.first_plan)
    page.goto(f"{airflow.url}/dags/{DAG_ID}/runs/{quote(run_id)}")
    page.get_by_role("link", name="Plan", exact=True).click()
    app = page.get_by_role("region", name="Plan")
    expect(app.get_by_text("Airflow asks whether to apply this plan")).to_be_visible()
    picture(page, "page-tab")
    app.get_by_role("button", name="Reject…").click()
    dialog = page.get_by_role("dialog")
    button = dialog.get_by_role("button", name="Reject")
    expect(button).to_be_disabled()
    assert find_barriers(page) == []
    dialog.get_by_label("Reason").fill("not during the sale")
    button.click()
    expect(app.get_by_text("Rejected. The run ends without a change.")).to_be_visible()
    assert airflow.wait(DAG_ID, run_id, scaled(RUN_DEADLINE_S)) == "success"
    assert airflow.task_states(DAG_ID, run_id)["apply_plan"] == "skipped"
    (refusal,) = PlanStore(scene.lake).read_refusals(scene.first_plan)
    assert (refusal.answer, refusal.reason, refusal.answered_by) == ("rejected", "not during the sale", airflow.user)
    page.reload()
    app.get_by_role("tab", name="Gate and decisions").click()
    expect(app.get_by_text("not during the sale")).to_be_visible()


def test_other_plan_is_approved_watched_and_stopped(page: Page, airflow: LocalAirflow, scene: WebScene) -> None:
    run_id = ask_about(airflow, scene.second_plan)
    app = go_to_plan(page, airflow, scene, scene.second_plan)
    app.get_by_role("button", name="Approve…").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(app.get_by_text("Approved. Airflow goes on with the run.")).to_be_visible()
    link = app.get_by_role("link", name="Everything about this run")
    expect(link).to_be_visible(timeout=1000 * scaled(RUN_DEADLINE_S))
    link.click()
    waves = app.get_by_role("list", name="Progress by wave")
    expect(waves.get_by_role("listitem").first).to_contain_text("1 settled", timeout=1000 * scaled(RUN_DEADLINE_S))
    picture(page, "page-run")
    app.get_by_role("button", name="Stop…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("brokers look sick")
    dialog.get_by_role("button", name="Stop now").click()
    expect(app.get_by_text("All writing is stopped")).to_contain_text("brokers look sick")
    assert airflow.wait(DAG_ID, run_id, scaled(RUN_DEADLINE_S)) == "failed"
    # Its record is named after the epoch at which it restored Pulsar's balancer, and the page follows.
    expect(app.get_by_text("stopped", exact=True)).to_be_visible()
    app.get_by_role("button", name="What would a rollback do?").click()
    expect(app.get_by_text("would move back")).to_be_visible()
    assert find_barriers(page) == []
    app = go(page, airflow, cluster=scene.cluster)
    app.get_by_role("button", name="Allow writing again").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("they are well again")
    page.get_by_role("dialog").get_by_role("button", name="Allow writing").click()
    expect(app.get_by_role("button", name="Stop all writing")).to_be_visible()


def test_run_of_another_dag_says_quietly_that_it_has_no_plan(page: Page, airflow: LocalAirflow) -> None:
    run_id = airflow.trigger(OTHER_DAG_ID)
    page.goto(f"{airflow.url}/dags/{OTHER_DAG_ID}/runs/{quote(run_id)}")
    page.get_by_role("link", name="Plan", exact=True).click()
    expect(page.get_by_role("region", name="Plan")).to_have_text("No plan here.")


def test_viewer_sees_everything_and_is_offered_nothing(log_in: LogIn, airflow: LocalAirflow, scene: WebScene) -> None:
    page = log_in(VIEWER)
    app = go(page, airflow, cluster=scene.cluster)
    expect(app.get_by_role("table").first).to_be_visible()
    expect(app.get_by_role("button", name="Stop all writing")).to_have_count(0)
    app = go_to_plan(page, airflow, scene, scene.first_plan)
    choose(page, "Certificate")
    expect(app.get_by_role("slider")).to_be_visible()
    expect(app.get_by_role("button", name="Plan again")).to_have_count(0)


@pytest.mark.parametrize("color_scheme", ["light", "dark"])
def test_no_page_has_a_serious_barrier(
    log_in: LogIn, airflow: LocalAirflow, scene: WebScene, color_scheme: str
) -> None:
    page = log_in(color_scheme=color_scheme)
    barriers = {}
    for name, place in {
        "clusters": {},
        "cluster": {"cluster": scene.cluster},
        "plans": {"cluster": scene.cluster, "view": "plans"},
        "runs": {"cluster": scene.cluster, "view": "runs"},
        "nothing": {"cluster": "no-such-cluster"},
    }.items():
        app = go(page, airflow, **place)
        expect(app.locator("section, .notice").first).to_be_visible()
        barriers[name] = find_barriers(page)
    app = go_to_plan(page, airflow, scene, scene.first_plan)
    for part in ("Balance", "Steps", "Left alone", "Certificate", "Gate and decisions"):
        choose(page, part)
        expect(app.get_by_text("Loading")).to_have_count(0)
        barriers[part] = find_barriers(page)
    if color_scheme == "dark":
        choose(page, "Balance")
        picture(page, "page-plan-dark")
    assert {name: found for name, found in barriers.items() if found} == {}
