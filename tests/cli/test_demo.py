"""`evenkeel demo`: ZooKeeper, fleet, Airflow and Spark for real, from an empty folder to a proved placement."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from support.commands import evenkeel
from support.waiting import eventually

pytestmark = pytest.mark.airflow

DEMO_DEADLINE_S = 600.0


def processes_below(folder: Path) -> list[str]:
    """Command lines of processes that were started for a folder."""
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(folder) in line]


@pytest.mark.timeout(DEMO_DEADLINE_S)
@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_demo_realises_what_it_planned_and_leaves_nothing_running(tmp_path: Path, kind: str) -> None:
    demo = evenkeel("demo", "--load-manager", kind, "--json", cwd=tmp_path, deadline_s=DEMO_DEADLINE_S)
    assert demo.code == 0, demo.err
    result = demo.document
    assert result["passed"] is True
    assert result["planned"] == result["settled"] > 0
    # The verdict is from measured load: whoever is outside the band, or silent, is named in a sentence.
    said = "\n".join(result["findings"])
    assert "The busiest broker is now " in said
    assert all(name in said for name in (*result["brokers_outside_band"], *result["silent_brokers"]))
    assert bool(result["brokers_outside_band"]) == ("above" in said)
    assert Path(result["report"].removeprefix("file://")).read_text().startswith("<!doctype html>")
    assert eventually(lambda: not processes_below(tmp_path)), processes_below(tmp_path)
