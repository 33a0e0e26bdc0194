"""Puts the page together: headline, figures at a glance, the sections, and the small print.

The page needs nothing but itself: no network, no scripts. Every name comes from outside and is escaped. The same
plan and verdict give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.model.load import RESOURCES
from evenkeel.model.moments import format_time
from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step
from evenkeel.model.settings import Settings
from evenkeel.model.verdict import Verdict
from evenkeel.planning.report.balance import render_balance
from evenkeel.planning.report.certificate import render_certificate
from evenkeel.planning.report.comparison import render_comparison
from evenkeel.planning.report.disruption import render_disruption
from evenkeel.planning.report.gate import gate_badge, render_gate
from evenkeel.planning.report.markup import (
    ARROW,
    badge,
    code,
    count,
    facts,
    figure,
    fold,
    is_figure,
    percent,
    text,
    words,
)
from evenkeel.planning.report.pools import render_pools
from evenkeel.planning.report.rejections import render_rejections
from evenkeel.planning.report.steps import render_splits, render_steps
from evenkeel.planning.report.style import STYLE
from evenkeel.planning.step_costs import cost_of

# Should a name slip through unescaped all the same, the browser neither runs nor loads anything.
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_report(
    plan: Plan,
    steps: Sequence[Step],
    rejections: Sequence[Rejection],
    brokers: Sequence[BrokerBalance],
    verdict: Verdict,
) -> str:
    """One self-contained HTML page about a plan and its verdict."""
    sections = {
        "Balance": render_balance(brokers, plan.settings.get("broker_overloaded_threshold_percentage")),
        "Best possible": render_certificate(plan, steps),
        "Pulsar": render_comparison(plan, steps),
        "Pools": render_pools(plan.pools),
        "Waves": render_disruption(steps, plan.settings),
        "Splits": render_splits(steps),
        "Steps": render_steps(steps),
        "Left alone": render_rejections(rejections),
        "Gate": render_gate(verdict),
    }
    present = {name: html for name, html in sections.items() if html}
    parts = [_headline(plan, steps, verdict), _tiles(plan, steps), _contents(present), *present.values()]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(f'Plan {plan.plan_id[:12]} for {plan.cluster}')}</title>\n<style>{STYLE}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join([*parts, _small_print(plan)]) + "\n</main>\n</body>\n</html>\n"
    )


def _headline(plan: Plan, steps: Sequence[Step], verdict: Verdict) -> str:
    waves = len({step.wave for step in steps})
    what = f"{count(len(steps), 'step')} in {count(waves, 'wave')}" if steps else "nothing to change"
    cut = f" {badge('warn', 'cut short by a deadline')}" if plan.truncated else ""
    table = {
        "Plan": code(plan.plan_id),
        "Snapshot": code(plan.snapshot_id),
        "Strategy": text(f"{plan.strategy}, version {plan.strategy_version}"),
        "Expires": text(format_time(plan.expires_at)),
        "Gate": gate_badge(verdict) + cut,
    }
    return (
        f'<p class="eyebrow">Evenkeel plan</p>\n<h1>Cluster {text(plan.cluster)}: {what}</h1>\n'
        f'<p class="abstract">{_abstract(plan, steps)}</p>\n{facts(table)}'
    )


def _abstract(plan: Plan, steps: Sequence[Step]) -> str:
    """The plan in two sentences: what it does to the fullest broker, and how far from the best it is."""
    sentences = []
    before, after = plan.balance.get("before", {}), plan.balance.get("after", {})
    common = [resource for resource in map(str, RESOURCES) if resource in before and resource in after]
    if common:
        hottest = max(common, key=lambda resource: before[resource]["max"])
        start, end = percent(before[hottest]["max"]), percent(after[hottest]["max"])
        name = words(hottest)
        sentences.append(
            f"The fullest broker goes from {start} to {end} of its {name}."
            if steps
            else f"The fullest broker stays at {end} of its {name}."
        )
    bound = plan.bounds.get("moves")
    if steps and is_figure(bound) and bound > 0:
        sentences.append(
            f"No plan that reaches the band does it with fewer than {count(bound, 'move')}; this one takes "
            f"{cost_of(steps).moves:,}."
        )
    outside = sum(not pool.get("reaches_band", True) for pool in plan.pools)
    if outside:
        sentences.append(f"{count(outside, 'pool')} of {len(plan.pools):,} cannot reach the band; see what would help.")
    return " ".join(sentences)


def _tiles(plan: Plan, steps: Sequence[Step]) -> str:
    before, after = plan.balance.get("before", {}), plan.balance.get("after", {})
    tiles = [
        _tile(
            f"peak {words(resource)}",
            f"{100 * before[resource]['max']:.1f}{ARROW}{percent(after[resource]['max'])}",
            f"mean {percent(after[resource]['mean'])} of the limits",
        )
        for resource in map(str, RESOURCES)
        if resource in before and resource in after
    ]
    total = cost_of(steps)
    disruption = f"{figure(total.client_seconds)} client-seconds of disruption"
    tiles.append(_tile("sessions that reconnect", figure(total.sessions), disruption))
    misplaced = [_misplaced(plan, when) for when in ("before", "after")]
    if any(misplaced):
        value = f"{misplaced[0]:,}{ARROW}{misplaced[1]:,}"
        tiles.append(_tile("bundles in the wrong place", value, "by isolation policies, or on brokers to be emptied"))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _misplaced(plan: Plan, when: str) -> int:
    counts = plan.violations.get(when, {})
    return int(counts.get("misplaced", 0) + counts.get("to_be_emptied", 0))


def _tile(label: str, value: str, note: str) -> str:
    return f'<div class="tile"><small>{text(label)}</small><b>{value}</b><small>{text(note)}</small></div>'


def _contents(sections: Mapping[str, str]) -> str:
    links = []
    for name, html in sections.items():
        anchor = html.partition('id="')[2].partition('"')[0]
        links.append(f'<a href="#{anchor}">{text(name)}</a>')
    return f'<nav aria-label="Contents">{"".join(links)}</nav>'


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
        _folded_facts("Settings that are not the default", changed),
        _folded_facts("All settings", plan.settings),
        _folded_facts("Policy versions", plan.policy_versions),
        _folded_facts("Digests (SHA-256)", digests),
    ]
    return f"{''.join(parts)}<footer>Made by Evenkeel {text(plan.library_version)}.</footer>"


def _plain(value: Any) -> Any:
    """A setting as JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def _folded_facts(title: str, values: Mapping[str, Any]) -> str:
    return fold(text(title), facts({key: code(value) for key, value in values.items()})) if values else ""
