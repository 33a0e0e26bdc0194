"""What stays as it is, grouped by the rule that refused it."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.model.plan import Rejection
from evenkeel.planning.report.charts import share_bar
from evenkeel.planning.report.markup import cell, code, count, fold, lead, section, sentence, shown, table, text

# Of each rule this many are shown.
SHOWN_REJECTIONS = 100
# What speaks about everything comes before what speaks about one bundle.
_SCOPES = ("plan", "pool", "broker", "bundle")


def render_rejections(rejections: Sequence[Rejection]) -> str:
    """Every rule that refused something, with what it refused and why; the widest scope first."""
    if not rejections:
        return section("left-alone", "Left alone", "Nothing was refused: no rule stood in the way of the plan.", "")
    rules: dict[str, list[Rejection]] = {}
    for row in rejections:
        rules.setdefault(row.rule, []).append(row)
    ranked = sorted(rules, key=lambda rule: (min(map(_width, rules[rule])), -len(rules[rule]), rule))
    most = max(map(len, rules.values()))
    folds = [_rule(rule, rules[rule], most) for rule in ranked]
    note = f"What stays as it is, and the rule that refused it. {count(len(rejections), 'refusal')} in all."
    return section("left-alone", "Left alone", note, f'<div class="card">{"".join(folds)}</div>')


def _rule(rule: str, rows: Sequence[Rejection], most: int) -> str:
    ordered = sorted(rows, key=_width)
    summary = (
        f'<span class="rule">{text(rule)}</span> {share_bar(len(rows), most)} '
        f'<span class="soft">{text(_about(ordered))}</span>'
    )
    cells = [
        [
            lead(f'{_subject(row)}<span class="why">{sentence(row.detail)}</span>'),
            cell(text(row.scope)),
            cell(code(row.broker) if row.broker else "–"),
            cell(code(row.pool) if row.pool else "–"),
        ]
        for row in ordered[:SHOWN_REJECTIONS]
    ]
    note = f'<p class="soft">{shown(len(rows), SHOWN_REJECTIONS, "rejections.parquet")}</p>'
    # What concerns the whole plan or a pool is not to be missed.
    is_open = _width(ordered[0]) < _SCOPES.index("broker")
    return fold(summary, note + table(rule, ("What and why", "About", "Broker", "Pool"), cells), is_open)


def _about(rows: Sequence[Rejection]) -> str:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.scope] = counts.get(row.scope, 0) + 1
    return ", ".join(count(many, scope) for scope, many in counts.items())


def _subject(row: Rejection) -> str:
    name = row.bundle or row.broker or row.pool
    return code(name) if name else "The whole plan"


def _width(row: Rejection) -> int:
    return _SCOPES.index(row.scope) if row.scope in _SCOPES else len(_SCOPES)
