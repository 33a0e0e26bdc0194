"""How far a run is, in the log of its task and in the task's own storage, where Airflow's page shows it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from evenkeel.execution.pace import Pace, SparseLines
from evenkeel.model.plan import Step
from evenkeel.model.run import StepResult

PROGRESS = "progress"
log = logging.getLogger(__name__)


class TaskProgress:
    """Follows a run; call it with each result. What Airflow does not store is in the log all the same."""

    def __init__(self, steps: Sequence[Step], store: Any | None) -> None:
        self._pace, self._store = Pace(steps, time.monotonic()), store
        self._lines = SparseLines(self._pace, self._tell)

    def __call__(self, result: StepResult) -> None:
        self._lines.note(result)

    def _tell(self, line: str) -> None:
        log.info("%s", line)
        if self._store is None:
            return
        try:
            told = {"done": self._pace.done, "steps": len(self._pace.steps), "line": line}
            self._store.set(PROGRESS, told | {"wave": self._pace.wave, "waves": self._pace.waves})
        except Exception as error:
            # A run must not end because nobody can look at it.
            log.warning("Airflow does not store the progress: %s", error)
            self._store = None
