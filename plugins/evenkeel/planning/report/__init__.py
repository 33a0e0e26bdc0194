"""A plan as one HTML page for whoever has to approve it: what changes, why, what it costs, and what the gate says."""

from __future__ import annotations

from evenkeel.planning.report.page import render_report

__all__ = ["render_report"]
