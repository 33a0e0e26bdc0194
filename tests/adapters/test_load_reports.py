"""When a broker's report may speak from before a change."""

from __future__ import annotations

from datetime import UTC, datetime

from evenkeel.adapters.cluster.load_reports import BrokerReport, Change

MADE_AT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
MADE_AT_MS = round(MADE_AT.timestamp() * 1000)
REPORT = BrokerReport("b:8080", MADE_AT, {}, zxid=100, stats_period_s=60.0)


def test_report_written_before_a_change_predates_it() -> None:
    assert REPORT.may_predate(Change(zxid=101, time_ms=MADE_AT_MS - 3_600_000))


def test_report_written_just_after_a_change_may_still_repeat_an_older_count() -> None:
    """Seen on real modular brokers: the old owner's next report lists the bundle until it counts anew."""
    assert REPORT.may_predate(Change(zxid=99, time_ms=MADE_AT_MS - 5_000))


def test_report_written_long_after_a_change_knows_of_it() -> None:
    assert not REPORT.may_predate(Change(zxid=99, time_ms=MADE_AT_MS - 121_000))
    assert not REPORT.may_predate(Change(zxid=99))
