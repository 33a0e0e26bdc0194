"""The page that a person reads before approving a plan."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from evenkeel.model.plan import BrokerBalance, Rejection, StepKind
from evenkeel.model.verdict import Check, Verdict
from evenkeel.planning.manual import Wish, plan_wish
from evenkeel.planning.report import render_report
from evenkeel.planning.report.balance import MOST_BARS
from evenkeel.planning.report.charts import Scale, round_scale
from evenkeel.planning.report.rejections import SHOWN_REJECTIONS
from evenkeel.planning.report.steps import SHOWN_STEPS
from support import small_plan
from support.by_hand import known
from support.small_cluster import B01, B02, B03
from support.small_plan import FIRST, step

VOID = frozenset({"meta", "br"})
CHECKS = (
    Check("plan", "plan_is_complete", "warning", False, "The plan was not cut short", "a deadline cut it short"),
    Check("plan_steps", "budgets_are_kept", "critical", True, "The plan keeps its budgets", "kept in full"),
)
REJECTIONS = [Rejection(B01, "bundle", "shop/big/0x00000000_0xffffffff", B01, "too-big", "40.0 % of any broker")]
CURVE = [
    {"moves": 0, "sessions": 0, "client_seconds": 0.0, "worst": 2.0, "least_moves": 0},
    {"moves": 1, "sessions": 10, "client_seconds": 7.0, "worst": 1.333, "least_moves": 1},
]
POOL = {
    "pool": B01,
    "brokers": 3,
    "bundles": 6,
    "moves": 1,
    "bound_moves": 1,
    "gap": 1.0,
    "binding_resource": "bandwidth_in",
    "lowest_peak": {"cpu": 0.2, "bandwidth_in": 0.24, "bandwidth_out": 0.2},
    "peak_before": {"cpu": 0.4, "bandwidth_in": 0.48, "bandwidth_out": 0.4},
    "peak_after": {"cpu": 0.3, "bandwidth_in": 0.32, "bandwidth_out": 0.3},
    "reaches_band": False,
    "limited_by": "giant-bundle",
    "advice": ["splitting shop/big lets the band be reached"],
}
PEER = {
    "strategy": "threshold-shedder",
    "cycles": 4,
    "unloads": 9,
    "repeat_unloads": 3,
    "moves": 6,
    "worst_before": 2.0,
    "worst_after": 1.5,
    "moved_sessions": 90,
    "client_seconds": 63.0,
    "illegal": 0,
    "stopped_because": "no broker is 10 points above the mean",
    "explanation": ["it sheds from b01 first"],
}


class Page(HTMLParser):
    """Collects the text of a page and proves that its tags are balanced, and that its pictures can be told."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.tags: set[str] = set()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.untold_pictures = 0
        self.feed(html)
        assert self.open == []
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        if tag == "a":
            self.links.add(str(values["href"]))
        if tag == "section":
            self.anchors.add(f"#{values['id']}")
        if tag == "svg" and values.get("aria-hidden") != "true":
            self.untold_pictures += 1
        if tag == "desc":
            self.untold_pictures -= 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += f" {data}"


def report(**changes: Any) -> str:
    plan = small_plan.stored()
    parts = {
        "plan": plan.plan,
        "steps": plan.steps,
        "rejections": REJECTIONS,
        "brokers": plan.brokers,
        "verdict": Verdict("plan x", CHECKS, "1.0.0"),
    } | changes
    return render_report(**parts)


def full_plan(**changes: Any) -> Any:
    return small_plan.plan(**({"curve": CURVE, "pools": [POOL], "counterfactual": [PEER]} | changes))


def many_brokers(count: int) -> list[BrokerBalance]:
    return [
        dataclasses.replace(row, broker_id=f"b{number:04d}:8080")
        for number in range(count)
        for row in small_plan.balances()[: 3 if number % 2 else 6][-3:]
    ]


def test_report_tells_what_changes_why_and_what_it_costs() -> None:
    page = Page(report())
    plan = small_plan.plan()
    for expected in (
        "Cluster fleet: 1 step in 1 wave",
        "The fullest broker goes from 48.0 % to 32.0 % of its cpu.",
        "No plan that reaches the band does it with fewer than 1 move; this one takes 1.",
        plan.plan_id,
        plan.snapshot_id,
        "48.0 → 32.0",
        "passed with 1 warning",
        FIRST,
        B02,
        f"{B01} uses 48.0 % of its bandwidth in",
        "7 client-seconds of disruption",
        "40.0 % of any broker",
        "a deadline cut it short",
        "Peak of bandwidth out",
        "Wave 0, the canary",
    ):
        assert expected in page.text
    assert "kept in full" not in page.text, "what passed needs no detail"


def test_report_shows_curve_pools_and_what_pulsar_would_have_done() -> None:
    page = Page(report(plan=full_plan()))
    for expected in (
        "Balance against moves",
        "no plan can be here",
        "1 pool of 1 cannot reach the band; see what would help.",
        "splitting shop/big lets the band be reached",
        "outside: giant-bundle",
        "bandwidth in 48.0 % → 32.0 %",
        "threshold-shedder",
        "no broker is 10 points above the mean",
        "it sheds from b01 first",
        "What threshold-shedder decided, 4 cycles",
    ):
        assert expected in page.text


INSIDE = POOL | {"reaches_band": True, "limited_by": "nothing"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"truncated": True}, "a deadline cut it short"),
        ({"pools": [INSIDE]}, "every broker is inside its band"),
        (
            {"pools": [INSIDE], "violations": {"after": {"misplaced": 1, "to_be_emptied": 1}}},
            "every broker is inside its band, and no place was found for 2 bundles that may not stay",
        ),
        (
            {"pools": [INSIDE, POOL, POOL, POOL | {"limited_by": "budget"}]},
            "3 pools of 4 cannot be brought into the band: a bundle is too big for any broker (2); "
            "a budget, or the order of the steps, leaves moves out (1)",
        ),
        (
            {"pools": [POOL | {"limited_by": "bundle-sizes"}]},
            "1 pool of 1 cannot be brought into the band: nothing that is left fits into the room that others have (1)",
        ),
        ({"strategy": PEER["strategy"]}, f"{PEER['stopped_because']} threshold-shedder"),
    ],
)
def test_own_row_says_why_the_plan_ends_where_it_does(changes: dict[str, Any], why: str) -> None:
    page = Page(report(plan=full_plan(**changes)))
    own_row = page.text.partition("It stopped because this plan")[2].partition("What threshold-shedder decided")[0]
    assert why in own_row


def test_every_picture_can_be_told_and_every_link_leads_somewhere() -> None:
    splits = [step(kind="split", destination=None, split_boundary=0x20000000)]
    page = Page(report(plan=full_plan(), steps=[*splits, *small_plan.stored().steps]))
    assert page.untold_pictures == 0
    assert page.links == page.anchors
    assert len(page.anchors) == 9


def test_report_needs_nothing_but_itself_and_is_the_same_every_time() -> None:
    html = report(plan=full_plan())
    assert Page(html).tags.isdisjoint({"script", "link", "img", "iframe", "object", "form"})
    assert re.findall(r"https?://|url\(|@import| on\w+=", html) == []
    assert "default-src 'none'" in html
    assert html == report(plan=full_plan())


def test_names_from_outside_are_escaped() -> None:
    evil = "<script>alert('&')</script>\"><b onload=x>"
    rejection = Rejection(evil, evil, evil, evil, evil, evil)
    verdict = Verdict(evil, (Check(evil, evil, "critical", False, evil, evil),), "1.0.0")
    rows = [row for row in small_plan.balances() if row.broker_id == B03]
    dirty = [dataclasses.replace(row, broker_id=evil, pool=evil) for row in rows]
    steps = [
        step(bundle=evil, source=evil, destination=evil, reason=evil),
        step(bundle=evil, kind="split", destination=None, split_boundary=1, reason=evil),
    ]
    plan = full_plan(
        cluster=evil,
        snapshot_id=evil,
        strategy=evil,
        policy_versions={evil: 1},
        settings={evil: evil},
        library_version=evil,
        pools=[POOL | {"pool": evil, "binding_resource": evil, "limited_by": evil, "advice": [evil]}],
        counterfactual=[PEER | {"strategy": evil, "stopped_because": evil, "explanation": [evil]}],
    )
    html = report(plan=plan, steps=steps, rejections=[rejection], brokers=dirty, verdict=verdict)
    assert "<script" not in html
    assert "<b onload" not in html
    assert Page(html).text.count(evil) > 25


def test_many_brokers_become_a_skyline_and_strips() -> None:
    few, many = report(brokers=many_brokers(MOST_BARS)), report(brokers=many_brokers(MOST_BARS + 1))
    assert "fullest before" not in Page(few).text
    page = Page(many)
    assert "fullest before" in page.text
    # Three resources, before and after, one cell a broker.
    assert len(re.findall(r'class="heat\d"', many)) == 6 * (MOST_BARS + 1)
    assert page.untold_pictures == 0
    assert f"b{MOST_BARS:04d}:8080" in page.text, "every broker is in the table"


def test_broker_outside_the_band_is_marked() -> None:
    inside, outside = report(), report(brokers=small_plan.balances(band_mb=35))
    assert 'rect class="outside"' not in inside
    # One broker, three resources.
    assert outside.count('rect class="outside"') == 3


def test_empty_plan_blocked_by_the_gate() -> None:
    verdict = Verdict("plan x", (Check("plan", "a_rule", "critical", False, "A rule", "it is broken"),), "1.0.0")
    page = Page(report(steps=[], rejections=[], verdict=verdict))
    for expected in ("nothing to change", "blocked by 1 check", "The plan has no steps.", "Nothing was refused"):
        assert expected in page.text


def test_plan_without_any_figure_is_still_a_page() -> None:
    bare = small_plan.plan(balance={}, bounds={}, gap={}, disruption={}, violations={}, settings={})
    nobody = PEER | dict.fromkeys(("cycles", "unloads", "worst_after", "moved_sessions", "client_seconds"))
    page = Page(report(plan=dataclasses.replace(bare, counterfactual=[nobody], pools=[{}]), steps=[], brokers=[]))
    assert "No broker has a known limit" in page.text


def test_long_plan_is_cut_and_says_where_the_rest_is() -> None:
    steps = [step(order=n, wave=n // 50) for n in range(SHOWN_STEPS + 5)]
    page = Page(report(steps=steps))
    assert "The first 1,000 of 1,005; all are in steps.parquet." in page.text
    assert page.text.count(FIRST) == SHOWN_STEPS
    rejections = [dataclasses.replace(REJECTIONS[0], detail=f"reason {n}.") for n in range(SHOWN_REJECTIONS + 1)]
    text = Page(report(rejections=rejections)).text
    assert "The first 100 of 101; all are in rejections.parquet." in text
    assert "101 bundles" in text


def test_refusals_are_grouped_by_rule_with_the_widest_scope_first() -> None:
    wide = Rejection("", "plan", None, None, "step-budget", "the budget max_steps = 0 leaves out 1 move")
    page = Page(report(rejections=[*REJECTIONS * 3, wide]))
    left_alone = page.text.index("Left alone What stays")
    assert left_alone < page.text.index("step-budget") < page.text.index("too-big")
    assert "3 bundles" in page.text
    assert "The whole plan" in page.text


def test_splits_show_their_children_and_where_they_go() -> None:
    first, second = "shop/orders/0x00000000_0x20000000", "shop/orders/0x20000000_0x40000000"
    steps = [
        step(order=0, kind="split", destination=None, split_boundary=0x20000000, sessions=0, disruption_client_ms=0),
        step(order=1, bundle=second),
    ]
    page = Page(report(steps=steps))
    assert "1 bundle cut in two" in page.text
    assert f"{first.rpartition('/')[2]} stays" in page.text
    assert f"{second.rpartition('/')[2]} → {B03}" in page.text
    assert "this one takes 1." in page.text, "a split is no move"


def test_budgets_show_what_is_taken_of_them() -> None:
    settings = {"max_steps": 4, "wave_max_sessions": 20.0, "max_client_seconds": None}
    text = Page(report(plan=small_plan.plan(settings=settings))).text
    assert "Max steps 1 4" in text
    assert "Wave max sessions 10 20" in text
    assert "Max client seconds" not in text


@pytest.mark.parametrize(
    ("highest", "low", "end"),
    [(0.0, 0.0, 1.0), (7.0, 0.0, 8.0), (99.6, 0.0, 100.0), (1.04, 1.0, 1.04), (2.47, 1.0, 2.5)],
)
def test_scales_end_at_round_numbers(highest: float, low: float, end: float) -> None:
    scale = round_scale(highest, low)
    assert scale.high == pytest.approx(end)
    ticks = scale.ticks()
    assert ticks[0] == low
    assert ticks[-1] == pytest.approx(end)
    assert 2 <= len(ticks) <= 7


def test_values_outside_a_scale_are_drawn_at_its_edge() -> None:
    scale = Scale(1.0, 2.0)
    assert [scale.place(value) for value in (0.5, 1.5, 9.0)] == [0.0, 500.0, 1000.0]
    assert Scale(3.0, 3.0).place(3.0) == 0.0


def test_report_of_a_plan_by_hand_compares_it_with_pulsar_and_shows_no_bounds() -> None:
    wish = Wish(StepKind.TRANSFER, "shop/orders/0x00000000_0x40000000", "ada", destination=B03)
    made = plan_wish(known(), wish)
    page = report(plan=made.plan, steps=made.steps, rejections=made.rejections, brokers=made.brokers)
    assert "What Pulsar itself would have done" in page
    assert "its steps were chosen, not searched for" in page
    assert "Against the best possible" not in page
