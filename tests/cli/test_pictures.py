"""What the terminal shows of a run."""

from __future__ import annotations

import pytest

from evenkeel.cli.runs import print_verification
from evenkeel.execution.measured_load import BrokerCheck
from evenkeel.execution.verification import Verification


def test_broker_that_has_not_reported_since_the_run_is_named_and_not_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    told = BrokerCheck("b1:8080", "cpu", 1000, 900, 500, 480)
    silent = BrokerCheck("b2:8080", "cpu", 1000, 100, 500, None)
    said = "No load report since the run from b2:8080: the load there is not known."
    print_verification(Verification("run", "plan", "snapshot", 3, 3, (), (told, silent), (said,), ("b2:8080",)))
    printed = capsys.readouterr().out
    assert "90.0%" in printed
    assert "48.0%" in printed
    assert "10.0%" not in printed
    assert said in printed
    assert "3 of 3 steps settled; snapshot snapshot confirms every new owner" in printed
