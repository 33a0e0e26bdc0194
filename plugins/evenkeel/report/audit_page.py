"""The page of an audit: findings first, then predictions, what was learnt, and who moved what.

Like a plan's report it is self-contained: no network, no scripts, light and dark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evenkeel.model.audit import AuditFinding, AuditRecord, BundleMove, PredictionFigures
from evenkeel.model.load import Resource
from evenkeel.model.plan_summary import RESOURCE_NAMES, count
from evenkeel.model.timestamps import format_time
from evenkeel.model.verdict import Severity
from evenkeel.report.markup import (
    NOTHING,
    badge,
    card,
    cell,
    code,
    facts,
    figure,
    lead,
    number,
    percent,
    section,
    sentence,
    shown,
    table,
    text,
)
from evenkeel.report.style import STYLE

SHOWN_MOVES = 200
_CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_KINDS = {Severity.CRITICAL: "bad", Severity.WARNING: "warn", Severity.INFO: "soft"}


def render_audit(
    record: AuditRecord,
    findings: Sequence[AuditFinding],
    figures: Sequence[PredictionFigures],
    moves: Sequence[BundleMove],
) -> str:
    """One self-contained HTML page about an audit."""
    parts = [
        _headline(record),
        _render_findings(findings),
        _render_predictions(figures),
        _render_moves(record, moves),
        f"<footer>Made by Evenkeel {text(record.library_version)}.</footer>",
    ]
    title = text(f"Audit of {record.cluster}, {format_time(record.audited_at)[:16]}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _headline(record: AuditRecord) -> str:
    counts = record.counts
    told = ", ".join(count(counts.get(str(severity), 0), f"{severity} finding") for severity in Severity)
    table_of = {
        "Period": text(f"{format_time(record.since)[:16]} to {format_time(record.audited_at)[:16]} UTC"),
        "Snapshots": figure(record.snapshots),
        "Runs": ", ".join(map(code, record.runs)) or NOTHING,
        "Cpu weights": code(record.cpu_calibration_id) if record.cpu_calibration_id else "none learnt",
        "Hand-over times": code(record.hand_over_id) if record.hand_over_id else "none learnt",
    }
    heading = f"<h1>Cluster {text(record.cluster)}: {text(told)}</h1>"
    return f'<p class="eyebrow">Evenkeel audit</p>\n{heading}\n{facts(table_of)}'


def _render_findings(findings: Sequence[AuditFinding]) -> str:
    if not findings:
        return section("findings", "Findings", "Nothing was found.", "")
    items = []
    for finding in findings:
        remedy = f'<br><span class="soft">{sentence(finding.remedy)}</span>' if finding.remedy else ""
        kind = badge(_KINDS[Severity(finding.severity)], finding.severity)
        items.append(
            f"<li><span>{kind}</span><span>{sentence(finding.sentence)} "
            f'<code class="soft">{text(finding.kind)}</code>{remedy}</span></li>'
        )
    return section("findings", "Findings", "The most severe first.", card(f'<ul class="checks">{"".join(items)}</ul>'))


def _render_predictions(figures: Sequence[PredictionFigures]) -> str:
    heads = ("Run", "After", "Resource", "Error", "Bias", "MAPE", "MASE", "Placement", "Load", "Cpu model")
    rows = [
        [
            lead(code(row.run_id) + (f'<span class="why">{sentence(row.note)}</span>' if row.note else "")),
            cell(text(f"{row.horizon_s / 60:g} min")),
            cell(text(RESOURCE_NAMES[Resource(row.resource)])),
            number(percent(row.wape_ratio)),
            number(percent(row.bias_ratio)),
            number(percent(row.mape_ratio)),
            number(figure(row.mase, 2)),
            number(percent(row.placement_ratio)),
            number(percent(row.load_ratio)),
            number(percent(row.cpu_model_ratio)),
        ]
        for row in figures
    ]
    note = (
        "The error is the sum of |realised − predicted| over the realised load. Its three parts: bundles that are not "
        "where the plan puts them, load that changed since, and how cpu is shared out over bundles. MASE compares with "
        "the prediction that nothing changes: below 1 the plan predicts better."
    )
    body = card(table("Predicted against realised", heads, rows)) if rows else "<p>No run could be compared.</p>"
    return section("predictions", "Predicted against realised", note, body)


def _render_moves(record: AuditRecord, moves: Sequence[BundleMove]) -> str:
    figures = record.oscillation
    movers = Counter(move.mover for move in moves)
    told = {
        "Moves": figure(figures.moves),
        "Returns within a day": f"{figure(figures.returns)} ({percent(figures.return_rate)})",
        "Most moves of a bundle in a day": figure(figures.most_moves_of_a_bundle_per_day),
        "Net over gross moved load": percent(figures.net_over_gross),
    } | {f"Moved by {mover}": figure(many) for mover, many in movers.most_common()}
    rows = [
        [
            lead(code(move.bundle) + f'<span class="why">{sentence(move.evidence)}</span>'),
            cell(code(move.source)),
            cell(code(move.destination)),
            cell(text(format_time(move.seen_at)[:16])),
            cell(text(move.mover)),
        ]
        for move in moves[-SHOWN_MOVES:]
    ]
    listed = card(table("Moves", ("Bundle", "From", "To", "Seen at", "Mover"), rows)) if rows else ""
    note = shown(len(moves), SHOWN_MOVES, "moves.parquet").replace("The first", "The last")
    return section("moves", "Moves", note, facts(told) + listed)
