"""A plan as one HTML page for the person who approves it: what changes, why, what it costs, and the gate's verdict."""

from __future__ import annotations

from evenkeel.report.page import render_report

__all__ = ["render_report"]
