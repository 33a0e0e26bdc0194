"""A plan as one HTML page for whoever has to approve it: what changes, why, what it costs, and what the gate says.

The page needs nothing but itself: no network, no scripts. Every name comes from outside and is escaped. The same
plan and verdict give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from evenkeel.model.load import MILLI, RESOURCES
from evenkeel.model.moments import format_time
from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step
from evenkeel.model.verdict import Check, Severity, Verdict
from evenkeel.planning.report_bars import render_balance, render_share
from evenkeel.planning.report_style import STYLE

SHOWN_STEPS = 1_000
SHOWN_REJECTIONS = 200
_BYTES_PER_MEGABYTE = 1_000_000
_ARROW = '<span class="arrow">→</span>'
_SEVERITY_CLASS = {Severity.CRITICAL: "bad", Severity.WARNING: "warn", Severity.INFO: "soft"}


def render_report(
    plan: Plan,
    steps: Sequence[Step],
    rejections: Sequence[Rejection],
    brokers: Sequence[BrokerBalance],
    verdict: Verdict,
) -> str:
    """One self-contained HTML page about a plan and its verdict."""
    sections = [
        _headline(plan, steps, verdict),
        _tiles(plan, steps),
        render_balance(brokers),
        _bounds(plan, steps),
        _waves(steps),
        _steps(steps),
        _rejections(rejections),
        _gate(verdict),
        _small_print(plan),
    ]
    title = f"Plan {plan.plan_id[:12]} for {plan.cluster}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + "\n</main>\n</body>\n</html>\n"
    )


def _headline(plan: Plan, steps: Sequence[Step], verdict: Verdict) -> str:
    waves = len({step.wave for step in steps})
    what = f"{_count(len(steps), 'step')} in {_count(waves, 'wave')}" if steps else "nothing to change"
    cut = ' <span class="badge warn">cut short by a deadline</span>' if plan.truncated else ""
    facts = {
        "Plan": _code(plan.plan_id),
        "Snapshot": _code(plan.snapshot_id),
        "Strategy": escape(f"{plan.strategy}, version {plan.strategy_version}"),
        "Expires": escape(format_time(plan.expires_at)),
        "Gate": _gate_badge(verdict) + cut,
    }
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts.items())
    return (
        f'<p class="eyebrow">Evenkeel plan</p>\n<h1>Cluster {escape(plan.cluster)}: {what}</h1>\n'
        f'<dl class="facts">{rows}</dl>'
    )


def _gate_badge(verdict: Verdict) -> str:
    if not verdict.passed:
        return f'<span class="badge bad">blocked by {_count(len(verdict.blocking), "check")}</span>'
    if verdict.warnings:
        return f'<span class="badge warn">passed with {_count(len(verdict.warnings), "warning")}</span>'
    return '<span class="badge good">passed</span>'


def _tiles(plan: Plan, steps: Sequence[Step]) -> str:
    before, after = plan.balance.get("before", {}), plan.balance.get("after", {})
    tiles = [
        _tile(
            f"peak {_words(resource)}",
            f"{100 * before[resource]['max']:.1f}{_ARROW}{_percent(after[resource]['max'])}",
            f"mean {_percent(after[resource]['mean'])} of the limits",
        )
        for resource in map(str, RESOURCES)
        if resource in before and resource in after
    ]
    sessions = sum(step.sessions for step in steps)
    client_s = sum(step.disruption_client_ms for step in steps) / MILLI
    tiles.append(_tile("sessions that reconnect", f"{sessions:,}", f"{client_s:,.0f} client-seconds of disruption"))
    misplaced = [_misplaced(plan, when) for when in ("before", "after")]
    if any(misplaced):
        value = f"{misplaced[0]:,}{_ARROW}{misplaced[1]:,}"
        tiles.append(_tile("bundles in the wrong place", value, "by isolation policies, or on brokers to be emptied"))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _misplaced(plan: Plan, when: str) -> int:
    counts = plan.violations.get(when, {})
    return int(counts.get("misplaced", 0) + counts.get("to_be_emptied", 0))


def _tile(label: str, value: str, note: str) -> str:
    return f'<div class="tile"><small>{escape(label)}</small><b>{value}</b><small>{escape(note)}</small></div>'


def _bounds(plan: Plan, steps: Sequence[Step]) -> str:
    bounds, gap = plan.bounds, plan.gap
    after = plan.balance.get("after", {})
    rows = [
        _bound_row("Moves", f"{len(steps):,}", _whole(bounds.get("moves")), gap.get("moves")),
        _bound_row(
            "Sessions moved",
            f"{sum(step.sessions for step in steps):,}",
            _whole(bounds.get("sessions")),
            gap.get("sessions"),
        ),
    ]
    for resource in map(str, RESOURCES):
        least = bounds.get("max_over_mean", {}).get(resource)
        if resource in after and least is not None:
            name, reached = f"Peak over mean, {_words(resource)}", after[resource]["max_over_mean"]
            of_bound = gap.get("max_over_mean", {}).get(resource)
            rows.append(_bound_row(name, f"{reached:.3f}", f"{least:.3f}", of_bound))
    return _section(
        "Against the bounds",
        "The bounds hold for any plan that reaches the band, so a ratio of 1 is the best there is; "
        "below 1, this plan stops short of the band.",
        _table(("Measure", "This plan", "Bound", "Ratio"), rows),
    )


def _bound_row(name: str, reached: str, bound: str, ratio: float | None) -> list[str]:
    return [_lead(escape(name)), _number(reached), _number(bound), _number("–" if ratio is None else f"{ratio:.2f}")]


def _waves(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    waves: dict[int, list[Step]] = {}
    for step in steps:
        waves.setdefault(step.wave, []).append(step)
    costs = {wave: sum(step.disruption_client_ms for step in members) for wave, members in waves.items()}
    most = max(costs.values())
    rows = [
        [
            _lead(f"{wave}{' <span class=soft>canary</span>' if wave == 0 else ''}"),
            _number(f"{len(waves[wave]):,}"),
            _number(f"{sum(step.sessions for step in waves[wave]):,}"),
            _number(f"{costs[wave] / MILLI:,.1f}"),
            f"<td>{render_share(costs[wave], most)}</td>",
        ]
        for wave in sorted(waves)
    ]
    note = "A wave has to settle as predicted before the next one starts."
    return _section("Waves", note, _table(("Wave", "Steps", "Sessions", "Client-seconds", ""), rows))


def _steps(steps: Sequence[Step]) -> str:
    if not steps:
        return _section("Steps", "The plan has no steps.", "")
    rows = [
        [
            _lead(f'{_code(step.bundle)}<span class="why">{escape(step.reason)}</span>'),
            _number(f"{step.order:,}"),
            _number(f"{step.wave:,}"),
            _cell(f'<span class="route">{_code(step.source)} →<br>{_code(step.destination or step.kind)}</span>'),
            _number(_megabytes(step.throughput_in_bytes_per_s)),
            _number(_megabytes(step.throughput_out_bytes_per_s)),
            _number(f"{step.cpu_millipercent / MILLI:,.1f}"),
            _number(f"{step.sessions:,}"),
        ]
        for step in steps[:SHOWN_STEPS]
    ]
    heads = ("Bundle and reason", "Step", "Wave", "From, to", "In, MB/s", "Out, MB/s", "Cpu, %", "Sessions")
    return _section("Steps", _shown(len(steps), SHOWN_STEPS, "steps.parquet"), _table(heads, rows))


def _rejections(rejections: Sequence[Rejection]) -> str:
    if not rejections:
        return ""
    rows = [
        [
            _lead(f'{_code(row.bundle or row.broker or row.pool)}<span class="why">{escape(row.detail)}</span>'),
            _cell(escape(row.rule)),
            _cell(escape(row.scope)),
            _cell(_code(row.broker or "–")),
        ]
        for row in rejections[:SHOWN_REJECTIONS]
    ]
    shown = _shown(len(rejections), SHOWN_REJECTIONS, "rejections.parquet")
    note = f"What stays as it is, and the rule that refused it. {shown}"
    return _section("Left alone", note, _table(("What and why", "Rule", "About", "Broker"), rows))


def _gate(verdict: Verdict) -> str:
    failed = [*verdict.blocking, *verdict.warnings]
    passed = [check for check in verdict.checks if check.passed]
    found = f'<ul class="checks">{"".join(map(_check, failed))}</ul>' if failed else ""
    kept = (
        f"<details><summary>{_count(len(passed), 'check')} passed</summary>"
        f'<ul class="checks">{"".join(map(_check, passed))}</ul></details>'
    )
    return _section("Gate", f"{escape(verdict.subject)}: {_gate_badge(verdict)}", found + kept)


def _check(check: Check) -> str:
    kind = "good" if check.passed else _SEVERITY_CLASS[Severity(check.severity)]
    label = "passed" if check.passed else check.severity
    detail = "" if check.passed else f"<br>{escape(check.detail)}"
    return (
        f'<li><span><span class="badge {kind}">{escape(label)}</span></span>'
        f'<span>{escape(check.description)} <code class="soft">{escape(check.name)}</code>{detail}</span></li>'
    )


def _small_print(plan: Plan) -> str:
    digests = {
        "steps": plan.steps_sha256,
        "rejections": plan.rejections_sha256,
        "brokers": plan.brokers_sha256,
        "inverse plan": plan.inverse_sha256,
    }
    parts = [
        _details("Settings", plan.settings),
        _details("Policy versions", plan.policy_versions),
        _details("Digests (SHA-256)", digests),
    ]
    return f"{''.join(parts)}<footer>Made by Evenkeel {escape(plan.library_version)}.</footer>"


def _details(title: str, values: Mapping[str, Any]) -> str:
    if not values:
        return ""
    rows = "".join(f"<dt>{escape(key)}</dt><dd><code>{escape(str(value))}</code></dd>" for key, value in values.items())
    return f'<details><summary>{escape(title)}</summary><dl class="facts">{rows}</dl></details>'


def _section(title: str, note: str, body: str) -> str:
    card = f'<div class="card">{body}</div>' if body else ""
    return f'<section><h2>{escape(title)}</h2><p class="soft">{note}</p>{card}</section>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [list(row) for row in rows]
    is_number = [cells and 'class="number"' in cells[0][place] for place in range(len(heads))]
    head = "".join(
        f"<th{' class=number' if number else ''}>{escape(name)}</th>"
        for name, number in zip(heads, is_number, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_labelled(cell, name) for cell, name in zip(row, heads, strict=True))}</tr>" for row in cells
    )
    return f'<div class="scroll"><table class="stack"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _labelled(cell: str, name: str) -> str:
    """Give a cell the name of its column, which a narrow screen shows in its place."""
    return cell.replace("<td", f'<td data-label="{escape(name)}"', 1)


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _lead(html: str) -> str:
    return f'<td class="lead">{html}</td>'


def _cell(html: str) -> str:
    return f"<td>{html}</td>"


def _number(text: str) -> str:
    return f'<td class="number">{text}</td>'


def _shown(count: int, most: int, file: str) -> str:
    return f"The first {most:,} of {count:,}; all are in {file}." if count > most else f"{count:,} in all."


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _megabytes(bytes_per_s: int) -> str:
    return f"{bytes_per_s / _BYTES_PER_MEGABYTE:,.2f}"


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
