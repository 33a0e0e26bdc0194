"""Text from outside, made harmless for where it is shown: a terminal, a page, a Markdown document.

Names of brokers, policies, failure domains and namespaces are whatever somebody wrote into ZooKeeper, a broker's answer
or a CSV file. Shown as they are, escape sequences could rewrite a terminal, bidirectional controls could make a name
read like another, and Markdown could hide a warning or put a link into the question that a person approves.
"""

from __future__ import annotations

import re

# What begins a list, a heading or a quotation where it stands first in a line.
_FIRST_IN_LINE = re.compile(r"(?:[-+=>#]|\d+(?=[.)]))")
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&#])")
# Renderers turn these into links wherever they find them, escaped or not, but never inside of code.
_LOOKS_LIKE_A_LINK = re.compile(r"://|www\.|@", re.IGNORECASE)
_BACKTICKS = re.compile(r"`+")


def make_visible(text: str) -> str:
    """Write every character that a reader would not see as its escape: controls, line breaks, bidirectional marks."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def escape_markdown(text: str) -> str:
    """A text that Markdown shows as it is, in one line; words that would become links are shown as code."""
    words = make_visible(text).split(" ")
    escaped = " ".join(
        _as_code(word) if _LOOKS_LIKE_A_LINK.search(word) else _MARKDOWN.sub(r"\\\1", word) for word in words
    )
    first = _FIRST_IN_LINE.match(escaped)
    if first is None:
        return escaped
    # A number is an item of a list by the point or the bracket after it.
    place = first.end() if first.group().isdigit() else 0
    return f"{escaped[:place]}\\{escaped[place:]}"


def _as_code(word: str) -> str:
    """A code span; its fence is longer than any run of backticks inside, which nothing else can end."""
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(word)), default=0))
    space = " " if word.startswith("`") or word.endswith("`") else ""
    # A bar would end the cell of a table even inside of code.
    return f"{fence}{space}{word}{space}{fence}".replace("|", "\\|")
