"""The page that a person reads before approving a plan."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

from evenkeel.model.plan import Rejection
from evenkeel.model.verdict import Check, Verdict
from evenkeel.planning.report import SHOWN_STEPS, render_report
from support import small_plan
from support.small_cluster import B01, B02, B03
from support.small_plan import FIRST, step

VOID = frozenset({"meta", "br", "rect", "line"})
CHECKS = (
    Check("plan", "plan_is_complete", "warning", False, "The plan was not cut short", "a deadline cut it short"),
    Check("plan_steps", "budgets_are_kept", "critical", True, "The plan keeps its budgets", "holds"),
)
REJECTIONS = [Rejection(B01, "bundle", "shop/big/0x00000000_0xffffffff", B01, "too-big", "40.0 % of any broker")]


class Page(HTMLParser):
    """Collects the text of a page and proves that its tags are balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.tags: set[str] = set()
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def report(**changes: object) -> str:
    plan = small_plan.stored()
    parts = {
        "plan": plan.plan,
        "steps": plan.steps,
        "rejections": REJECTIONS,
        "brokers": plan.brokers,
        "verdict": Verdict("plan x", CHECKS, "1.0.0"),
    } | changes
    return render_report(**parts)  # type: ignore[arg-type]


def test_report_tells_what_changes_why_and_what_it_costs() -> None:
    page = Page(report())
    plan = small_plan.plan()
    words = re.sub(r"\s+", " ", page.text)
    for expected in (
        "Cluster fleet: 1 step in 1 wave",
        plan.plan_id,
        plan.snapshot_id,
        "48.0 → 32.0 %",
        "passed with 1 warning",
        FIRST,
        B02,
        f"{B01} uses 48.0 % of its bandwidth in",
        "7 client-seconds of disruption",
        "40.0 % of any broker",
        "a deadline cut it short",
        "Peak over mean, bandwidth out",
    ):
        assert expected in words
    assert "holds" not in words


def test_report_needs_nothing_but_itself_and_is_the_same_every_time() -> None:
    html = report()
    page = Page(html)
    assert page.tags.isdisjoint({"script", "link", "img", "iframe"})
    assert re.findall(r"https?://|url\(|@import", html) == []
    assert html == report()


def test_names_from_outside_are_escaped() -> None:
    evil = "<script>alert('&')</script>"
    rejection = Rejection(evil, evil, evil, evil, evil, evil)
    verdict = Verdict(evil, (Check(evil, evil, "critical", False, evil, evil),), "1.0.0")
    rows = [row for row in small_plan.balances() if row.broker_id == B03]
    dirty = [dataclasses.replace(row, broker_id=evil, pool=evil) for row in rows]
    steps = [step(bundle=evil, source=evil, destination=evil, reason=evil)]
    plan = small_plan.plan(
        cluster=evil,
        snapshot_id=evil,
        strategy=evil,
        policy_versions={evil: 1},
        settings={evil: evil},
        library_version=evil,
    )
    html = report(plan=plan, steps=steps, rejections=[rejection], brokers=dirty, verdict=verdict)
    assert "<script" not in html
    assert Page(html).text.count(evil) > 15


def test_broker_outside_the_band_is_marked() -> None:
    inside, outside = report(), report(brokers=small_plan.balances(band_mb=35))
    assert 'fill="var(--bad)"' not in inside
    # One broker, three resources.
    assert outside.count('fill="var(--bad)"') == 3


def test_empty_plan_blocked_by_the_gate() -> None:
    verdict = Verdict("plan x", (Check("plan", "a_rule", "critical", False, "A rule", "it is broken"),), "1.0.0")
    page = Page(report(steps=[], rejections=[], verdict=verdict))
    assert "nothing to change" in page.text
    assert "blocked by 1 check" in page.text
    assert "The plan has no steps." in page.text


def test_long_plan_is_cut_and_says_where_the_rest_is() -> None:
    steps = [step(order=n, wave=n // 50) for n in range(SHOWN_STEPS + 5)]
    page = Page(report(steps=steps))
    assert "The first 1,000 of 1,005; all are in steps.parquet." in page.text
    assert page.text.count(FIRST) == SHOWN_STEPS
