"""What the terminal shows of a run."""

from __future__ import annotations

import pytest

from evenkeel.cli.pictures import print_realised
from evenkeel.execution.verification import BrokerCheck


def test_broker_that_has_not_reported_since_the_run_is_named_and_not_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    told = BrokerCheck("b1:8080", "cpu", 1000, 900, 500, 480)
    silent = BrokerCheck("b2:8080", "cpu", 1000, 100, 500, None)
    print_realised([told, silent])
    printed = capsys.readouterr().out
    assert "90.0%" in printed
    assert "48.0%" in printed
    assert "10.0%" not in printed
    assert "no load report since the run: b2:8080" in printed
