"""Whether a plan still holds: every step is proved against the cluster as it is now, and nothing is written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from evenkeel.adapters.approval_policy import ApprovalPolicy
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.canonical import short_id
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError
from evenkeel.model.run import RunState, StepState
from evenkeel.model.settings import Settings
from evenkeel.stages.apply import apply_plan


@dataclass(frozen=True, slots=True)
class Holding:
    """How many steps of a plan no longer hold, why the first of them does not, and what would stop a run now."""

    plan_id: str
    steps: int
    stale: int
    example: str = ""
    obstacle: str = ""

    def sentences(self) -> list[str]:
        """What a person should know; nothing where every step holds."""
        found = []
        if self.stale:
            apply = "applies" if self.stale == 1 else "apply"
            found.append(f"{self.stale:,} of {self.steps:,} steps no longer {apply} ({self.example})")
        if self.obstacle:
            found.append(f"a run that began now would stop: {self.obstacle}")
        return found

    def require(self, settings: Settings) -> None:
        """Refuse a plan of which more than the allowed share of steps is stale."""
        share = settings.max_stale_steps_share
        if self.stale > share * self.steps:
            raise RefusedError(
                f"{self.stale:,} of {self.steps:,} steps of plan {short_id(self.plan_id)} no longer apply, more than "
                f"the {100 * share:.3g} % that max_stale_steps_share allows ({self.example})",
                "plan again from a fresh snapshot",
            )


def find_stale_steps(lake: Lake, plan_id: str, connection: ClusterConnection, settings: Settings) -> Holding:
    """Prove every step of a plan against the running cluster."""
    record = apply_plan(lake, plan_id, connection, settings, dry_run=True, approvals=ApprovalPolicy())
    stale = [result for result in record.results if result.state in (StepState.SKIPPED, StepState.FAILED)]
    whys = Counter(result.detail for result in stale).most_common(1)
    example = f"{stale[0].bundle}: {whys[0][0]}" if stale else ""
    obstacle = "" if record.state is RunState.DONE else record.detail.partition("; still missing")[0]
    return Holding(record.plan_id, len(record.results), len(stale), example, obstacle)
