"""Learn how long hand-overs take, from the time that the steps of runs took to settle."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from evenkeel.model.load import HandOverTime
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.run import RunRecord, StepState
from evenkeel.model.snapshot import LoadManager

FEWEST_STEPS = 10
"""The ridge: the present time counts as much as this many steps."""
SLOWEST_S = 100.0
MILLI = 1000


def learn_hand_overs(
    runs: Iterable[tuple[RunRecord, str, Sequence[Step]]],
    present_ms: Mapping[str, int],
    learnt_at: datetime,
) -> list[HandOverTime]:
    """The hand-over time of each kind of step of which a run has settled one; `runs` come with load manager and steps.

    The median is not moved by a few steps that waited for a slow broker. On modular clusters a transfer is an unload
    for every client, so that is what its steps tell about.
    """
    seconds: dict[str, list[float]] = {}
    for run, load_manager, steps in runs:
        kinds = {step.order: step.kind for step in steps}
        for result in run.results:
            kind = kinds.get(result.order)
            is_measured = result.state is StepState.SETTLED and result.seconds is not None
            if is_measured and result.earlier_epoch is None and kind in present_ms:
                priced_as = str(StepKind.UNLOAD) if load_manager == LoadManager.MODULAR else str(kind)
                seconds.setdefault(priced_as, []).append(min(float(result.seconds or 0.0), SLOWEST_S))
    learnt = []
    for kind, taken in sorted(seconds.items()):
        measured_ms = statistics.median(taken) * MILLI
        trust = len(taken) / (len(taken) + FEWEST_STEPS)
        millis = max(1, round(trust * measured_ms + (1 - trust) * present_ms[kind]))
        learnt.append(HandOverTime(kind, millis, len(taken), learnt_at))
    return learnt
