"""What keeps the plan from doing more: pools with what limits them, and everything that a rule left alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evenkeel.model.figures import PoolFigures
from evenkeel.model.plan import Rejection
from evenkeel.model.plan_summary import RESOURCE_NAMES, count, name_pool
from evenkeel.report.markup import (
    NOTHING,
    badge,
    card,
    cell,
    code,
    figure,
    fold,
    lead,
    percent,
    section,
    sentence,
    share_bar,
    shown,
    table,
    text,
)

# Of more pools than this, those inside the band are folded away.
MOST_OPEN_POOLS = 12
SHOWN_REJECTIONS = 100
_POOL_HEADS = ("Pool and advice", "Size", "Moves", "Tightest resource", "Band")
# The widest scope comes first.
_SCOPES = ("plan", "pool", "broker", "bundle")


def render_pools(pools: Sequence[PoolFigures]) -> str:
    """Every pool with its tightest resource and advice; those outside their band first."""
    if not pools:
        return ""
    ranked = sorted(pools, key=lambda pool: (pool.reaches_band, pool.pool))
    folded = [pool for pool in ranked if pool.reaches_band] if len(ranked) > MOST_OPEN_POOLS else []
    open_pools = [pool for pool in ranked if pool not in folded]
    body = card(table("Pools", _POOL_HEADS, map(_pool_row, open_pools))) if open_pools else ""
    if folded:
        inside = table("Pools inside the band", _POOL_HEADS, map(_pool_row, folded))
        body += fold(f"{count(len(folded), 'pool')} inside the band", inside)
    note = (
        "A pool is a set of namespaces and brokers that is independent of the rest. Its tightest resource is the one "
        "whose lowest reachable peak is highest."
    )
    return section("pools", "Pools and what would help", note, body)


def _pool_row(pool: PoolFigures) -> list[str]:
    advice = "".join(f'<span class="why">{sentence(said)}</span>' for said in pool.advice)
    state = badge("good", "inside") if pool.reaches_band else badge("warn", f"outside: {pool.limited_by}")
    return [
        lead(f"{text(name_pool(pool))}{advice}"),
        _tight(f"{count(pool.brokers, 'broker')}<br>{count(pool.bundles, 'bundle')}"),
        _tight(f"{figure(pool.moves)}<br>{_soft(f'at least {figure(pool.bound_moves)}')}"),
        _tight(_tightest_resource(pool)),
        cell(state),
    ]


def _tightest_resource(pool: PoolFigures) -> str:
    resource = pool.binding_resource
    if resource is None:
        return NOTHING
    lowest, before, after = (
        percent(peaks.get(resource)) for peaks in (pool.lowest_peak, pool.peak_before, pool.peak_after)
    )
    return f"{RESOURCE_NAMES[resource]} {before} → {after}<br>{_soft(f'lowest possible {lowest}')}"


def _tight(html: str) -> str:
    return cell(f'<span class="tight">{html}</span>')


def _soft(html: str) -> str:
    return f'<span class="soft">{html}</span>'


def render_rejections(rejections: Sequence[Rejection]) -> str:
    """Every rule that refused something, with what it refused and why; the widest scope first."""
    if not rejections:
        return section("left-alone", "Left alone", "No rule refused anything.", "")
    rules: dict[str, list[Rejection]] = {}
    for row in rejections:
        rules.setdefault(row.rule, []).append(row)
    ranked = sorted(rules, key=lambda rule: (min(map(_width, rules[rule])), -len(rules[rule]), rule))
    most = max(map(len, rules.values()))
    folds = [_rule(rule, rules[rule], most) for rule in ranked]
    note = f"What stays as it is, and the rule that refused the change: {count(len(rejections), 'refusal')} in all."
    return section("left-alone", "Left alone", note, f'<div class="card">{"".join(folds)}</div>')


def _rule(rule: str, rows: Sequence[Rejection], most: int) -> str:
    ordered = sorted(rows, key=_width)
    scopes = Counter(row.scope for row in ordered)
    about = ", ".join(count(many, scope) for scope, many in scopes.items())
    summary = (
        f'<span class="rule">{text(rule)}</span> {share_bar(len(rows), most)} <span class="soft">{text(about)}</span>'
    )
    cells = [
        [
            lead(f'{_subject(row)}<span class="why">{sentence(row.detail)}</span>'),
            cell(text(row.scope)),
            cell(code(row.broker) if row.broker else NOTHING),
            cell(code(row.pool) if row.pool else NOTHING),
        ]
        for row in ordered[:SHOWN_REJECTIONS]
    ]
    note = f'<p class="soft">{shown(len(rows), SHOWN_REJECTIONS, "rejections.parquet")}</p>'
    # Nobody should miss what concerns the whole plan or a pool.
    is_open = _width(ordered[0]) < _SCOPES.index("broker")
    return fold(summary, note + table(rule, ("What and why", "Scope", "Broker", "Pool"), cells), is_open)


def _subject(row: Rejection) -> str:
    name = row.bundle or row.broker or row.pool
    return code(name) if name else "The whole plan"


def _width(row: Rejection) -> int:
    return _SCOPES.index(row.scope) if row.scope in _SCOPES else len(_SCOPES)
