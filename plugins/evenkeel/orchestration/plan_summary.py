"""The description of a plan as tasks hand it on, and as the approval shows it; reads and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from evenkeel.model.canonical import short_id
from evenkeel.model.plan_summary import RESOURCE_NAMES, count, format_client_seconds, summarise
from evenkeel.model.visible_text import escape_markdown, make_visible

if TYPE_CHECKING:
    from evenkeel.adapters.lake.plans import StoredPlan
    from evenkeel.model.figures import StrategyReplay
    from evenkeel.model.plan import BrokerBalance, Step

MOST_BROKERS = 12
MOST_TENANTS = 8


def summarise_plan(
    stored: StoredPlan, warnings: Sequence[str], marked: Sequence[str] = (), headline: str = ""
) -> dict[str, Any]:
    """What the person and the tasks after the gate need to know about a plan; small enough for XCom.

    `marked` are the brokers to be emptied; where the plan has no headline of its own, it says how many steps do that.
    """
    summary = asdict(summarise(stored.plan, stored.rejections, stored.brokers))
    leaving = sum(step.source in marked for step in stored.steps)
    if not headline and leaving:
        headline = f"Empty {' and '.join(marked)}: {leaving:,} of {len(stored.steps):,} steps"
    tenants = stored.plan.disruption.tenants[:MOST_TENANTS]
    return summary | {
        "headline": f"{headline} ({summary['headline']})" if headline else summary["headline"],
        "plan_uri": stored.uri,
        "report_uri": f"{stored.uri}/report.html",
        "sentences": list(summary["sentences"]),
        "peaks": [peak | {"resource": str(peak["resource"])} for peak in summary["peaks"]],
        "warnings": list(warnings),
        "brokers": list(_describe_brokers(stored.steps, stored.brokers)),
        "tenants": [
            {"tenant": row.tenant, "steps": row.steps, "sessions": row.sessions, "client_seconds": row.client_seconds}
            for row in tenants
        ],
        "tenants_in_all": stored.plan.disruption.tenants_in_all,
        "pulsar": [_describe_replay(row) for row in stored.plan.counterfactual],
    }


def _describe_brokers(steps: Sequence[Step], balances: Sequence[BrokerBalance]) -> Iterator[dict[str, Any]]:
    """Each broker that gives or takes, those with most steps first: steps and its busiest resource before and after."""
    out = Counter(step.source for step in steps)
    into = Counter(step.destination for step in steps if step.destination is not None)
    # Of a broker's resources, the one that is used most before or after comes last and stays.
    rows = sorted((row for row in balances if row.limit), key=_peak_of)
    busiest = {row.broker_id: row for row in rows}
    for broker in sorted({*out, *into}, key=lambda name: (-out[name] - into[name], name)):
        row_of = busiest.get(broker)
        yield {
            "broker": broker,
            "leave": out[broker],
            "arrive": into[broker],
            "resource": None if row_of is None else str(row_of.resource),
            "before": None if row_of is None else row_of.used_before / row_of.limit,
            "after": None if row_of is None else row_of.used_after / row_of.limit,
        }


def _peak_of(row: BrokerBalance) -> float:
    return max(row.used_before, row.used_after) / row.limit


def _describe_replay(row: StrategyReplay) -> str:
    """What one of Pulsar's strategies would have done, in words."""
    if row.unloads is None or row.worst_after is None:
        return f"{row.strategy}: {row.stopped_because}"
    peak = f"its busiest broker then carries {row.worst_after:.3f} × the lowest reachable peak"
    return f"{row.strategy}: {count(row.unloads, 'unload')}; {peak}"


def write_subject(summary: Mapping[str, Any]) -> str:
    """The headline of the question, with the cluster and the plan."""
    return f"Apply plan {short_id(summary['plan_id'])} to cluster {make_visible(summary['cluster'])}?"


def write_body(summary: Mapping[str, Any], now_stale: Sequence[str], answer_by: datetime, time_zone: str) -> str:
    """The question in Markdown: warnings first, what the plan does per broker and tenant, where to read more."""
    made_by, snapshot = escape_markdown(summary["strategy"]), escape_markdown(summary["snapshot_id"])
    deadline, place = answer_by.astimezone(ZoneInfo(time_zone)), quote(summary["cluster"], safe="")
    lines = [
        f"**{escape_markdown(summary['headline'])}**",
        "",
        *(f"- **Warning:** {escape_markdown(warning)}" for warning in (*now_stale, *summary["warnings"])),
        *(f"- {escape_markdown(sentence)}" for sentence in summary["sentences"]),
        f"- No answer by {deadline:%a %H:%M %Z} counts as a rejection.",
        "",
        *_write_brokers(summary["brokers"]),
        "| resource | busiest broker before | its load before | its load after | busiest broker after | its load after "
        "| max/mean before | after |",
        "|---|---|---:|---:|---|---:|---:|---:|",
        *map(_peak_row, summary["peaks"]),
        "",
        *_write_tenants(summary["tenants"], summary["tenants_in_all"]),
        *(f"- Pulsar itself, {escape_markdown(text)}" for text in summary["pulsar"]),
        # Relative, so that a deployment below a path of its own finds them.
        f"![balance before and after](evenkeel/api/clusters/{place}/plans/{summary['plan_id']}/balance.svg)",
        "",
        f"- plan: `{summary['plan_id']}`, [with every step](plugin/evenkeel?cluster={place}&view=plan&plan="
        f"{summary['plan_id']})",
        f"- made by {made_by} from snapshot {snapshot}, expires {summary['expires_at']}",
        f"- report: {escape_markdown(summary['report_uri'])}",
    ]
    return "\n".join(lines)


def _write_brokers(brokers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not brokers:
        return
    yield "| broker | bundles that leave | that arrive | its busiest resource | before | after |"
    yield "|---|---:|---:|---|---:|---:|"
    for row in brokers[:MOST_BROKERS]:
        share = ("–", "–") if row["before"] is None else (f"{row['before']:.1%}", f"{row['after']:.1%}")
        name = "–" if row["resource"] is None else RESOURCE_NAMES[row["resource"]]
        yield f"| {escape_markdown(row['broker'])} | {row['leave']} | {row['arrive']} | {name} | {' | '.join(share)} |"
    if len(brokers) > MOST_BROKERS:
        yield f"| {len(brokers) - MOST_BROKERS} more brokers | | | | | |"
    yield ""


def _write_tenants(tenants: Sequence[Mapping[str, Any]], in_all: int) -> Iterator[str]:
    if not tenants:
        return
    yield "| tenant | steps | sessions that reconnect | cost |"
    yield "|---|---:|---:|---:|"
    for row in tenants:
        cost = format_client_seconds(row["client_seconds"])
        yield f"| {escape_markdown(row['tenant'])} | {row['steps']:,} | {row['sessions']:,} | {cost} |"
    if in_all > len(tenants):
        yield f"| {in_all - len(tenants):,} more tenants | | | |"
    yield ""


def _peak_row(peak: Mapping[str, Any]) -> str:
    figures = (
        escape_markdown(peak["broker"]),
        f"{peak['before']:.1%}",
        f"{peak['after']:.1%}",
        escape_markdown(peak["busiest_after"]),
        f"{peak['peak_after']:.1%}",
        f"{peak['max_over_mean_before']:.3f}",
        f"{peak['max_over_mean_after']:.3f}",
    )
    idle = ", nearly idle" if peak["is_idle"] else ""
    return f"| {RESOURCE_NAMES[peak['resource']]}{idle}, share of the limit | {' | '.join(figures)} |"
