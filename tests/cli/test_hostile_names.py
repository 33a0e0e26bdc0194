"""Names that attack whoever reads them: from files to the terminal, the report and the question of the approval."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.table import Table

from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.store import Lake
from evenkeel.cli import output
from evenkeel.cli.pictures import print_plan, print_steps
from evenkeel.model.verdict import Check, Subject, Verdict
from evenkeel.orchestration.plan_summary import summarise_plan, write_body, write_subject
from evenkeel.report.page import render_report
from support import small_plan
from support.commands import evenkeel

ANSWER_BY = datetime(2026, 3, 1, tzinfo=UTC)
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07<img src=x onerror=alert(1)> [ok](http://evil.example/x) **none** \u202egnihton\u202c "
    "| `x` \x9b31m[red]\nWarning: all is well"
)
SHOWN = (
    r"\x1b[2J\x1b]0;owned\x07<img src=x onerror=alert(1)> [ok](http://evil.example/x) **none** \u202egnihton\u202c "
    r"| `x` \x9b31m[red]\nWarning: all is well"
)


def is_harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_plan() -> StoredPlan:
    plan = small_plan.stored(
        [small_plan.step(source=HOSTILE, destination=HOSTILE, reason=HOSTILE)],
        [dataclasses.replace(row, broker_id=HOSTILE, pool=HOSTILE) for row in small_plan.balances()[:3]],
        snapshot_id=HOSTILE,
        cluster=HOSTILE,
        strategy=HOSTILE,
    )
    return StoredPlan(plan.plan, plan.plan_id, "file:///lake", plan.steps, plan.rejections, plan.brokers)


def test_terminal_shows_a_hostile_plan_in_plain_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(hostile_plan())
    print_steps(hostile_plan().steps)
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert f"from {SHOWN} to {SHOWN}" in printed
    assert "\nWarning: all is well" not in printed
    assert "[red]" in printed, "nor is it rich's markup"


def test_console_sends_no_control_characters_whoever_forgot_to_escape(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    output.out.print(table, HOSTILE, style="red", markup=False)
    with output.reporting(as_json=False):
        logging.getLogger("evenkeel.nobody_listens").warning("%s", HOSTILE)
    captured = capsys.readouterr()
    assert is_harmless(captured.out)
    assert is_harmless(captured.err)
    assert r"\x1b" in captured.out


def test_colours_of_the_console_itself_still_work() -> None:
    console = output.PlainConsole(force_terminal=True, color_system="standard", highlight=False)
    with console.capture() as captured:
        console.print(f"[red]{output.escape(HOSTILE)}[/]", soft_wrap=True)
    assert captured.get() == f"\x1b[31m{SHOWN}\x1b[0m\n"


def test_json_is_the_same_document_in_plain_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({HOSTILE: [HOSTILE, "Größe"]})
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert json.loads(printed) == {HOSTILE: [HOSTILE, "Größe"]}
    assert "Größe" in printed


def test_report_shows_hostile_names_as_text() -> None:
    stored = hostile_plan()
    verdict = Verdict(
        Subject.PLAN, HOSTILE, {}, (Check(HOSTILE, HOSTILE, "critical", False, HOSTILE, HOSTILE),), "1.0.0"
    )
    html = render_report(stored.plan, stored.steps, stored.rejections, stored.brokers, verdict, HOSTILE)
    page = Page(html)
    assert "img" not in page.tags
    assert is_harmless(html.replace("\N{NO-BREAK SPACE}", " "))
    assert page.text.count(SHOWN) >= 6


def test_question_of_the_approval_shows_hostile_names_as_text() -> None:
    stored = hostile_plan()
    summary = summarise_plan(stored, [HOSTILE]) | {"headline": HOSTILE, "sentences": [HOSTILE, f"The broker {HOSTILE}"]}
    usual = summarise_plan(stored, ["a warning"]) | {"headline": "a", "sentences": ["b", "c"], "strategy": "d"}
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    question = write_body(summary, [HOSTILE], ANSWER_BY, "UTC")
    hostile, plain = map(reader.render, (question, write_body(usual | {"snapshot_id": "e"}, ["f"], ANSWER_BY, "UTC")))
    assert re.findall(r"<(?!/?code)(/?\w+)", hostile) == re.findall(r"<(?!/?code)(/?\w+)", plain)
    assert "http://evil.example/x" not in re.sub(r"<code>.*?</code>", "", hostile)
    assert is_harmless(question)
    assert is_harmless(write_subject(summary))


def policy(namespaces: str, primary: str, *secondary: str) -> dict[str, object]:
    limits = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}
    return {"namespaces": [namespaces], "primary": [primary], "secondary": secondary, "auto_failover_policy": limits}


@pytest.mark.spark
def test_hostile_policies_go_the_whole_way_from_files_to_the_report(tmp_path: Path) -> None:
    edges = [*(f"0x{place:08x}" for place in range(0, 2**32, 2**28)), "0xffffffff"]
    ranges = [f"{low}_{high}" for low, high in itertools.pairwise(edges)]
    rows = [f"shop/orders/{each},b1:8080,30000000,30000000,5" for each in ranges]
    rows += [f"iso/lated/{each},b3:8080,3000000,3000000,5" for each in ranges]
    (tmp_path / "bundles.csv").write_text("\n".join(["bundle,owner,throughput_in,throughput_out,producers", *rows]))
    brokers = [f"b{number}:8080,10000000,10000000" for number in (1, 2, 3)]
    (tmp_path / "brokers.csv").write_text(
        "\n".join(["broker_id,bandwidth_in_limit,bandwidth_out_limit", *brokers]) + "\n"
    )
    isolation = {HOSTILE: policy("iso/.*", "b3"), f"{HOSTILE}2": policy("shop/.*", "nobody", "b1", "b2")}
    policies = {"isolation": isolation, "failure_domains": {HOSTILE: ["b1:8080"]}, "anti_affinity": {"a/b": HOSTILE}}
    (tmp_path / "policies.json").write_text(json.dumps(policies))
    files = [part for name in ("brokers", "bundles") for part in (f"--{name}", f"{name}.csv")]
    where = ("--lake", "lake", "--cluster", "lab")
    printed = [
        evenkeel("import", *files, "--policies", "policies.json", *where, cwd=tmp_path),
        evenkeel("plan", *where, cwd=tmp_path),
        evenkeel("show", "latest", "--steps", *where, cwd=tmp_path),
        evenkeel("show", "latest", "--steps", "--json", *where, cwd=tmp_path),
        evenkeel("check", "latest", "--lake", "lake", cwd=tmp_path),
    ]
    for answer in printed:
        assert answer.code == 0, answer.err
        assert is_harmless(answer.out + answer.err)
    (report,) = (tmp_path / "lake" / "plans").glob("*/report.html")
    page = Page(report.read_text())
    assert "img" not in page.tags
    assert SHOWN in page.text, "the report names the policy"
    assert is_harmless(page.text.replace("\N{NO-BREAK SPACE}", " "))
    stored = PlanStore(Lake(str(tmp_path / "lake"))).load("latest")
    assert is_harmless(write_body(summarise_plan(stored, []), [], ANSWER_BY, "UTC"))
