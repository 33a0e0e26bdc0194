"""A plan in the few figures that a person needs to say yes or no; reads and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.model.moments import format_time

if TYPE_CHECKING:
    from evenkeel.adapters.plans import StoredPlan

SHORT_ID_LENGTH = 12


def summarise_plan(stored: StoredPlan, warnings: Sequence[str]) -> dict[str, Any]:
    """What tasks after the gate, and the person, have to know of a plan; small enough for XCom."""
    plan = stored.plan
    return {
        "plan_id": stored.plan_id,
        "plan_uri": stored.uri,
        "report_uri": f"{stored.uri}/report.html",
        "cluster": plan.cluster,
        "snapshot_id": plan.snapshot_id,
        "strategy": plan.strategy,
        "expires_at": format_time(plan.expires_at),
        "step_counts": dict(plan.step_counts),
        "balance": dict(plan.balance),
        "bounds": dict(plan.bounds),
        "disruption": dict(plan.disruption),
        "warnings": list(warnings),
    }


def write_subject(summary: Mapping[str, Any]) -> str:
    """The headline of the question, with the cluster and the plan."""
    return f"Apply plan {summary['plan_id'][:SHORT_ID_LENGTH]} to cluster {summary['cluster']}?"


def write_body(summary: Mapping[str, Any]) -> str:
    """The question in Markdown: which plan, what it does, what it reaches, what no plan can beat."""
    steps = ", ".join(f"{count} {kind}" for kind, count in sorted(summary["step_counts"].items()))
    lines = [
        f"- plan: `{summary['plan_id']}`",
        f"- made by {summary['strategy']} from snapshot {summary['snapshot_id']}, expires {summary['expires_at']}",
        f"- steps: {steps}",
        f"- report: {summary['report_uri']}",
        "",
        "| resource | max/mean before | after | busiest broker before | after |",
        "|---|---|---|---|---|",
        *_balance_rows(summary["balance"]),
        "",
        f"- no plan does it with less than: {_list_figures(summary['bounds'])}",
        f"- disruption: {_list_figures(summary['disruption'])}",
        *(f"- warning: {warning}" for warning in summary["warnings"]),
    ]
    return "\n".join(lines)


def _balance_rows(balance: Mapping[str, Any]) -> list[str]:
    before, after = balance.get("before", {}), balance.get("after", {})
    rows = []
    for resource in sorted(before):
        figures = [_figure(side.get(resource), name) for name in ("max_over_mean", "max") for side in (before, after)]
        rows.append(f"| {resource} | {' | '.join(figures)} |")
    return rows


def _figure(figures: Any, name: str) -> str:
    value = figures.get(name) if isinstance(figures, Mapping) else None
    return f"{value:.3g}" if isinstance(value, int | float) else "–"


def _list_figures(figures: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_show(value)}" for name, value in sorted(figures.items())) or "–"


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_list_figures(value)})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
