"""Builds the page: headline, figures at a glance, the sections, the gate's verdict, and the small print.

The page is self-contained: no network, no scripts. Every name from outside is escaped. The same plan and verdict give
the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step
from evenkeel.model.plan_summary import RESOURCE_NAMES, PeakChange, PlanSummary, count, format_client_seconds, summarise
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.settings import Settings
from evenkeel.model.verdict import Check, Severity, Verdict
from evenkeel.report.balance import render_balance
from evenkeel.report.comparison import render_certificate, render_pulsar
from evenkeel.report.markup import ARROW, badge, card, code, facts, figure, fold, percent, section, sentence, text
from evenkeel.report.obstacles import render_pools, render_rejections
from evenkeel.report.steps import render_disruption, render_splits, render_steps
from evenkeel.report.style import STYLE

# If a name were ever left unescaped, the browser would still run and load nothing.
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_SEVERITY_KIND = {Severity.CRITICAL: "bad", Severity.WARNING: "warn", Severity.INFO: "soft"}


def render_report(
    plan: Plan,
    steps: Sequence[Step],
    rejections: Sequence[Rejection],
    brokers: Sequence[BrokerBalance],
    verdict: Verdict,
    approval: str,
) -> str:
    """One self-contained HTML page about a plan and its verdict; `approval` says which approvals count for it."""
    summary = summarise(plan, rejections, brokers)
    sections = {
        "Balance": render_balance(brokers, plan.settings.get("broker_overloaded_threshold_percentage")),
        "Best possible": render_certificate(plan),
        "Pulsar": render_pulsar(plan),
        "Pools": render_pools(plan.pools),
        "Waves": render_disruption(steps, plan.settings),
        "Splits": render_splits(steps),
        "Steps": render_steps(steps),
        "Left alone": render_rejections(rejections),
        "Gate": _render_gate(verdict),
    }
    present = {name: html for name, html in sections.items() if html}
    parts = [_headline(plan, summary, verdict, approval), _tiles(plan, summary), _contents(present), *present.values()]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(f'Plan {summary.short_id} for {plan.cluster}')}</title>\n<style>{STYLE}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join([*parts, _small_print(plan)]) + "\n</main>\n</body>\n</html>\n"
    )


def _headline(plan: Plan, summary: PlanSummary, verdict: Verdict, approval: str) -> str:
    cut = f" {badge('warn', 'search hit its deadline')}" if plan.truncated else ""
    table = {
        "Plan": code(summary.plan_id),
        "Snapshot": code(summary.snapshot_id),
        "Strategy": text(f"{plan.strategy}, version {plan.strategy_version}"),
        "Expires": text(summary.expires_at),
        "Gate": _gate_badge(verdict) + cut,
        "Approval": text(approval),
    }
    return (
        f'<p class="eyebrow">Evenkeel plan</p>\n<h1>Cluster {text(plan.cluster)}: {text(summary.headline)}</h1>\n'
        f'<p class="abstract">{" ".join(map(sentence, summary.sentences))}</p>\n{facts(table)}'
    )


def _tiles(plan: Plan, summary: PlanSummary) -> str:
    tiles = [
        _tile(
            f"highest {RESOURCE_NAMES[peak.resource]}, of the limit",
            f"{100 * peak.before:.1f}{ARROW}{percent(peak.peak_after)}",
            "nearly idle" if peak.is_idle else _whose(peak, plan.balance.after[peak.resource].mean),
        )
        for peak in summary.peaks
    ]
    costs = plan.disruption
    disruption = f"{format_client_seconds(costs.client_seconds)} of disruption"
    tiles.append(_tile("sessions that reconnect", figure(costs.sessions), disruption))
    if plan.violations is not None:
        before, after = plan.violations.before.bundles_to_move, plan.violations.after.bundles_to_move
        if before or after:
            note = "by isolation policies, or on brokers to be emptied"
            tiles.append(_tile("bundles in the wrong place", f"{before:,}{ARROW}{after:,}", note))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _whose(peak: PeakChange, mean: float) -> str:
    """Whose figures a tile compares: the busiest broker before and the busiest after need not be the same."""
    who = peak.broker if peak.broker == peak.busiest_after else f"{peak.broker}, then {peak.busiest_after}"
    return f"{who}; mean {percent(mean)}"


def _tile(label: str, value: str, note: str) -> str:
    return f'<div class="tile"><small>{text(label)}</small><b>{value}</b><small>{text(note)}</small></div>'


def _contents(sections: Mapping[str, str]) -> str:
    links = []
    for name, html in sections.items():
        anchor = html.partition('id="')[2].partition('"')[0]
        links.append(f'<a href="#{anchor}">{text(name)}</a>')
    return f'<nav aria-label="Contents">{"".join(links)}</nav>'


def _render_gate(verdict: Verdict) -> str:
    """The gate's verdict: failed checks are open, passed ones are folded away."""
    failed = [*verdict.blocking, *verdict.warnings]
    passed = [check for check in verdict.checks if check.passed]
    found = f'<ul class="checks">{"".join(map(_check, failed))}</ul>' if failed else ""
    kept = fold(f"{count(len(passed), 'check')} passed", f'<ul class="checks">{"".join(map(_check, passed))}</ul>')
    return section("gate", "Gate", f"{text(verdict.subject)}: {_gate_badge(verdict)}", card(found + kept))


def _gate_badge(verdict: Verdict) -> str:
    if not verdict.passed:
        return badge("bad", f"blocked by {count(len(verdict.blocking), 'check')}")
    if verdict.warnings:
        return badge("warn", f"passed with {count(len(verdict.warnings), 'warning')}")
    return badge("good", "passed")


def _check(check: Check) -> str:
    kind = "good" if check.passed else _SEVERITY_KIND[Severity(check.severity)]
    detail = "" if check.passed else f"<br>{sentence(check.detail)}"
    return (
        f"<li><span>{badge(kind, 'passed' if check.passed else check.severity)}</span>"
        f'<span>{text(check.description)} <code class="soft">{text(check.name)}</code>{detail}</span></li>'
    )


def _small_print(plan: Plan) -> str:
    digests = {
        "steps": plan.steps_sha256,
        "rejections": plan.rejections_sha256,
        "brokers": plan.brokers_sha256,
        "inverse plan": plan.inverse_sha256,
    }
    defaults = {key: _plain(value) for key, value in Settings().to_json().items()}
    changed = {key: value for key, value in plan.settings.items() if defaults.get(key) != _plain(value)}
    parts = [
        _folded_facts("Settings changed from their default", changed),
        _folded_facts("All settings", plan.settings),
        _folded_facts("Policy versions", {path: _show_version(v) for path, v in plan.policy_versions.items()}),
        _folded_facts("Anti-affinity groups", plan.anti_affinity),
        _folded_facts("Digests (SHA-256)", digests),
    ]
    return f"{''.join(parts)}<footer>Made by Evenkeel {text(plan.library_version)}.</footer>"


def _show_version(version: PolicyVersion | None) -> str:
    return "not set" if version is None else f"version {version.version}, created by change {version.czxid}"


def _plain(value: Any) -> Any:
    """A setting as JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def _folded_facts(title: str, values: Mapping[str, Any]) -> str:
    return fold(text(title), facts({key: code(value) for key, value in values.items()})) if values else ""
