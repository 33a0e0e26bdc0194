"""What an invariant answers, and how exact the histories are that it judges."""

from __future__ import annotations

from collections.abc import Iterator

Findings = Iterator[tuple[int, str]]
"""Where a history breaks an invariant, as a zxid, and how, in words."""
SLACK_MS = 2_000
"""What a check before a step may be older than the step's transaction; also how exact a deadline is kept."""
