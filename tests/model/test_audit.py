"""Audit records: they come back as they were written, and findings that need a remedy have one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from evenkeel.model.audit import AuditFinding, AuditRecord, Oscillation
from evenkeel.model.errors import InputError

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def test_record_comes_back_as_it_was_written() -> None:
    counts = {"critical": 0, "warning": 1, "info": 2}
    record = AuditRecord("prod", NOW, NOW, 7, ("r1",), counts, Oscillation(4, 1, 2, 2, 9, 3), None, "h", {}, "1")
    assert AuditRecord.from_json(json.loads(json.dumps(record.to_json())), "here") == record


def test_warning_without_a_remedy_is_refused() -> None:
    with pytest.raises(InputError, match="has no remedy"):
        AuditFinding("warning", "drift", "b1", "something is off", "")


def test_oscillation_without_moves_has_no_rates() -> None:
    still = Oscillation(0, 0, 0, 0, 0, 0)
    assert (still.return_rate, still.net_over_gross) == (0.0, None)
