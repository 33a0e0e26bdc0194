"""Gates: data checks that say whether a snapshot may be planned with, and whether a plan may be applied.

Importing this room is cheap; Great Expectations and Spark are imported by the first call that judges.
"""

from evenkeel.gates.frames import JudgedPlan, SnapshotFrames
from evenkeel.gates.plan_gate import judge_plan
from evenkeel.gates.snapshot_gate import judge_snapshot

__all__ = ["JudgedPlan", "SnapshotFrames", "judge_plan", "judge_snapshot"]
