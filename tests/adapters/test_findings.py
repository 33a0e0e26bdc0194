"""Notes of a snapshot: one a kind of finding, with the first few things named."""

from __future__ import annotations

from evenkeel.adapters.cluster.findings import Finding, FindingKind, tell_findings


def test_one_finding_is_a_sentence_about_one_thing() -> None:
    assert tell_findings([Finding(FindingKind.NO_REPORT, "b1:8080", "HTTP 500")]) == [
        "broker b1:8080 gave no load report (HTTP 500)"
    ]


def test_many_findings_of_a_kind_are_one_note_that_counts_them() -> None:
    silent = [Finding(FindingKind.NO_REPORT, f"b{number:02}:8080", "HTTP 500") for number in range(40)]
    gone = [Finding(FindingKind.NOT_REGISTERED, "x1:8080"), Finding(FindingKind.NOT_REGISTERED, "x2:8080")]
    assert tell_findings([*silent[:1], *gone, *silent[1:]]) == [
        "40 brokers gave no load report: b00:8080 (HTTP 500), b01:8080 (HTTP 500), b02:8080 (HTTP 500) and 37 more",
        "2 brokers own bundles but are not registered: x1:8080, x2:8080",
    ]
