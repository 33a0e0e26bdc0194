"""What an invariant answers, and how exact the histories are that it judges."""

from __future__ import annotations

from collections.abc import Iterator

Findings = Iterator[tuple[int, str]]
"""Where a history breaks an invariant, as a zxid, and how, in words."""
SLACK_MS = 1_200
"""How much older than a step's transaction the writer's last look may be, and how exact a deadline is kept.

The writer looks, then sends. What is held longer than a session lives, a second, comes from a session that the server
has given up, at most a tick of 0.2 s later, and is refused. Runs with longer sessions hold each step for less.
"""
