"""The page that a person reads before approving a plan."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evenkeel.model.approval import ApprovalRules
from evenkeel.model.figures import Balance, BrokenRules, Disruption, PoolLimit, StepCounts, StrategyReplay, Violations
from evenkeel.model.plan import BrokerBalance, Rejection, StepKind
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.verdict import Check, Subject, Verdict
from evenkeel.planning.cluster.figures import describe_disruption
from evenkeel.planning.manual.requests import ManualRequest, build_manual_plan
from evenkeel.report import render_report
from evenkeel.report.balance import MOST_BARS
from evenkeel.report.markup import Scale, round_scale
from evenkeel.report.obstacles import SHOWN_REJECTIONS
from evenkeel.report.steps import SHOWN_STEPS
from support import small_plan
from support.by_hand import known
from support.small_cluster import B01, B02, B03
from support.small_plan import CURVE, FIRST, POOL, REPLAY, step

VOID = frozenset({"meta", "br"})
CHECKS = (
    Check("plan", "plan_is_complete", "warning", False, "The plan was not cut short", "a deadline cut it short"),
    Check("plan_steps", "budgets_are_kept", "critical", True, "The plan keeps its budgets", "kept in full"),
)
REJECTIONS = [Rejection(B01, "bundle", "shop/big/0x00000000_0xffffffff", B01, "too-big", "40.0 % of any broker")]


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
        "verdict": Verdict(Subject.PLAN, "x", {}, CHECKS, "1.0.0"),
        "approval": "signed with the key of the approver",
    } | changes
    return render_report(**parts)


def full_plan(**changes: Any) -> Any:
    return small_plan.plan(**({"curve": CURVE, "pools": (POOL,), "counterfactual": (REPLAY,)} | changes))


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
        "b01.fleet:8080, the busiest broker, goes from 48.0 % to 32.0 % of its bandwidth in limit.",
        "1 move: the provable minimum.",
        plan.plan_id,
        plan.snapshot_id,
        "48.0 → 32.0",
        "passed with 1 warning",
        FIRST,
        B02,
        f"{B01} uses 48.0 % of its bandwidth in",
        "7.0 client-seconds of disruption",
        "40.0 % of any broker",
        "a deadline cut it short",
        "Peak bandwidth out",
        "Wave 0, the canary",
    ):
        assert expected in page.text
    assert "kept in full" not in page.text, "what passed needs no detail"


def test_report_shows_curve_pools_and_what_pulsar_would_have_done() -> None:
    page = Page(report(plan=full_plan()))
    for expected in (
        "Balance against moves",
        "impossible for any plan",
        "1 of 1 pool stays outside the band: a bundle is too big for any broker.",
        "splitting [shop]/big lets the band be reached",
        "outside: giant-bundle",
        "bandwidth in 48.0 % → 32.0 %",
        "threshold-shedder",
        "no broker is 10 points above the mean",
        "it sheds from b01 first",
        "What threshold-shedder decided, 4 cycles",
    ):
        assert expected in page.text


INSIDE = replace(POOL, reaches_band=True, limited_by=PoolLimit.NOTHING)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"truncated": True}, "the search hit its deadline"),
        ({"pools": (INSIDE,)}, "every broker is inside its band"),
        (
            {"pools": (INSIDE,), "violations": Violations(BrokenRules(4, 1, 0, 0), BrokenRules(1, 1, 0, 0))},
            "every broker is inside its band, but 2 bundles that must leave found no other broker",
        ),
        (
            {"pools": (INSIDE, POOL, POOL, replace(POOL, limited_by=PoolLimit.BUDGET))},
            "3 of 4 pools stay outside the band: a bundle is too big for any broker (2); "
            "a budget or the order of the steps leaves moves out (1)",
        ),
        (
            {"pools": (replace(POOL, limited_by=PoolLimit.BUNDLE_SIZES),)},
            "1 of 1 pool stays outside the band: no remaining bundle fits on another broker",
        ),
        ({"strategy": REPLAY.strategy}, f"{REPLAY.stopped_because} threshold-shedder"),
    ],
)
def test_own_row_says_why_the_plan_ends_where_it_does(changes: dict[str, Any], why: str) -> None:
    page = Page(report(plan=full_plan(**changes)))
    own_row = page.text.partition("Why it stopped this plan")[2].partition("What threshold-shedder decided")[0]
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
    verdict = Verdict(Subject.PLAN, evil, {}, (Check(evil, evil, "critical", False, evil, evil),), "1.0.0")
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
        policy_versions={evil: PolicyVersion(17, 1)},
        settings={evil: evil},
        library_version=evil,
        pools=(replace(POOL, pool=evil, advice=(evil,)),),
        counterfactual=(replace(REPLAY, strategy=evil, stopped_because=evil, explanation=(evil,)),),
    )
    html = report(plan=plan, steps=steps, rejections=[rejection], brokers=dirty, verdict=verdict)
    assert "<script" not in html
    assert "<b onload" not in html
    assert Page(html).text.count(evil) > 25


def test_many_brokers_become_a_skyline_and_strips() -> None:
    few, many = report(brokers=many_brokers(MOST_BARS)), report(brokers=many_brokers(MOST_BARS + 1))
    assert "busiest before" not in Page(few).text
    page = Page(many)
    assert "busiest before" in page.text
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
    verdict = Verdict(
        Subject.PLAN, "x", {}, (Check("plan", "a_rule", "critical", False, "A rule", "it is broken"),), "1.0.0"
    )
    page = Page(report(steps=[], rejections=[], verdict=verdict))
    for expected in ("blocked by 1 check", "The plan has no steps.", "No rule refused anything."):
        assert expected in page.text


def test_plan_without_any_figure_is_still_a_page() -> None:
    bare = small_plan.plan(
        step_counts=StepCounts(),
        balance=Balance({}, {}),
        bounds=None,
        gap=None,
        disruption=Disruption(),
        violations=None,
        settings={},
        counterfactual=(StrategyReplay("threshold-shedder", "the cluster is too large"),),
    )
    page = Page(report(plan=bare, steps=[], brokers=[]))
    assert "nothing to change" in page.text
    assert "the cluster is too large" in page.text
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
    counts, costs = StepCounts(transfers=1, splits=1), describe_disruption(steps)
    page = Page(report(plan=small_plan.plan(step_counts=counts, disruption=costs), steps=steps))
    assert "1 bundle to split in two" in page.text
    assert f"{first.rpartition('/')[2]} stays" in page.text
    assert f"{second.rpartition('/')[2]} → {B03}" in page.text
    assert "1 move: the provable minimum. 1 bundle is split." in page.text, "a split is no move"


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
    wish = ManualRequest(StepKind.TRANSFER, "shop/orders/0x00000000_0x40000000", "ada", destination=B03)
    made = build_manual_plan(known(), wish)
    page = report(plan=made.plan, steps=made.steps, rejections=made.rejections, brokers=made.brokers)
    assert "What Pulsar itself would have done" in page
    assert "a person chose its steps" in page
    assert "Against the best possible" not in page


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (ApprovalRules(unsigned=True), "unsigned: nobody has to sign for this cluster"),
        (ApprovalRules((Path("a.pub"),)), "signed with the key of the approver"),
        (ApprovalRules((Path("a.pub"), Path("b.pub"))), "signed with the key of one of 2 approvers"),
        (ApprovalRules(), "none counts yet: the configuration names no approvers"),
    ],
)
def test_report_says_which_approvals_count(rules: ApprovalRules, words: str) -> None:
    assert f"Approval {words}" in " ".join(Page(report(approval=rules.describe())).text.split())
