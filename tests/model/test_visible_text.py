"""Text from outside, as a reader sees it and as Markdown renders it."""

from __future__ import annotations

import re
import sys

import pytest
from markdown_it import MarkdownIt

from evenkeel.model.visible_text import escape_markdown, make_visible

# What GitHub's flavour of Markdown, which Airflow's page speaks, turns into links without any markup.
AUTOLINK = re.compile(r"(https?://|www\.)[-.\w]+|[-.\w+]+@[-\w]+\.[-\w.]+", re.IGNORECASE)
HOSTILE = [
    "**bold** _slanted_ ~~struck~~ `code`",
    "[ok](http://evil.example/x)",
    "![ok](http://evil.example/x)",
    "<img src=x onerror=alert(1)>",
    "<http://evil.example>",
    "https://evil.example/x",
    "see(https://evil.example/x).",
    "www.evil.example",
    "admin@evil.example",
    "`https://evil.example`",
    "``https://evil.example``|``",
    "a | b | c",
    "https://evil.example/|x",
    "# heading",
    "- item",
    "+ item",
    "> quotation",
    "1. item",
    "12) item",
    "===",
    "---",
    "&lt;b&gt; &amp;",
    "\\*escaped\\* \\",
    "line\nbreak\r\nand\u2028more",
]


@pytest.mark.parametrize("text", ["b1.example.com:8080", "tenant/ns/0x00000000_0x40000000", "37.7 %", "Größe", ""])
def test_usual_names_are_shown_as_they_are(text: str) -> None:
    assert make_visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x9b2Jgone", r"\x9b2Jgone"),
        ("a\x07b\x00c\x7fd", r"a\x07b\x00c\x7fd"),
        ("one\ntwo\rthree\tfour", r"one\ntwo\rthree\tfour"),
        ("\u202eevil\u2066\u200f", r"\u202eevil\u2066\u200f"),
        ("b1\u200b.example", r"b1\u200b.example"),
        ("\ud800", r"\ud800"),
    ],
)
def test_characters_that_nobody_sees_are_written_out(text: str, shown: str) -> None:
    assert make_visible(text) == shown
    assert make_visible(shown) == shown


def test_nothing_invisible_is_left_of_any_character() -> None:
    assert make_visible("".join(map(chr, range(sys.maxunicode + 1)))).isprintable()


@pytest.mark.parametrize("frame", ["{}", "- {}", "**{}**", "- Warning: {}"])
@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_the_text_and_nothing_else(frame: str, text: str) -> None:
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    usual, hostile = (reader.render(frame.format(part)) for part in ("plain", f"x {escape_markdown(text)}"))
    assert tags(hostile) == tags(usual)
    assert tags(reader.render(frame.format(escape_markdown(text)))) <= tags(usual)
    assert "\n" not in escape_markdown(text)
    assert not AUTOLINK.search(re.sub(r"<code>.*?</code>", "", hostile))


@pytest.mark.parametrize("text", [text for text in HOSTILE if text.isprintable()])
def test_markdown_loses_nothing_of_the_text(text: str) -> None:
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    (inline,) = (token for token in reader.parse(f"{escape_markdown(text)} end") if token.type == "inline")
    shown = "".join(child.content for child in inline.children or [])
    # A bar in code stays escaped outside of tables.
    assert shown.replace("\\|", "|") == f"{text} end"


def test_row_of_a_table_keeps_its_cells() -> None:
    reader = MarkdownIt("commonmark").enable("table")
    row = f"| a | b |\n|---|---|\n| {escape_markdown('x | https://y/|z')} | end |"
    assert reader.render(row).count("<td>") == 2


def tags(html: str) -> set[str]:
    """The elements of a page, those of code apart, which holds text only."""
    return {tag for tag in re.findall(r"<(\w+)", html) if tag != "code"}
