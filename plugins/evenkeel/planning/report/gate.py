"""What the gate says about the plan."""

from __future__ import annotations

from evenkeel.model.verdict import Check, Severity, Verdict
from evenkeel.planning.report.markup import badge, card, count, fold, section, sentence, text

_SEVERITY_KIND = {Severity.CRITICAL: "bad", Severity.WARNING: "warn", Severity.INFO: "soft"}


def render_gate(verdict: Verdict) -> str:
    """What failed lies open, what passed is folded away."""
    failed = [*verdict.blocking, *verdict.warnings]
    passed = [check for check in verdict.checks if check.passed]
    found = f'<ul class="checks">{"".join(map(_check, failed))}</ul>' if failed else ""
    kept = fold(f"{count(len(passed), 'check')} passed", f'<ul class="checks">{"".join(map(_check, passed))}</ul>')
    return section("gate", "Gate", f"{text(verdict.subject)}: {gate_badge(verdict)}", card(found + kept))


def gate_badge(verdict: Verdict) -> str:
    """The verdict in a word."""
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
