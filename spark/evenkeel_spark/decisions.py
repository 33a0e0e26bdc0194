"""Decisions in the log: one line a pool and one for the plan, each `evenkeel-decision: {…}` with its figures as JSON.

The line of the plan is also the `metrics` of the job's answer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from evenkeel.planning.assembly import PlannedCluster
from evenkeel.planning.metrics import measure_plan, measure_pool
from evenkeel_spark.planning import SolvedPools

DECISION_PREFIX = "evenkeel-decision: "
LOGGER = logging.getLogger("evenkeel.planning")


def log_decisions(solved: SolvedPools, planned: PlannedCluster) -> dict[str, Any]:
    """Log what was decided in each pool and in the whole; answers the figures of the whole."""
    for plan, seconds in zip(solved.plans, solved.seconds_of_pools, strict=True):
        _log("pool", measure_pool(plan) | {"solve_seconds": round(seconds, 3)})
    metrics = measure_plan(planned, solved.plans) | {"solve_seconds": round(solved.seconds, 3)}
    _log("plan", {"plan_id": planned.plan.plan_id} | metrics)
    return metrics


def _log(scope: str, figures: Mapping[str, Any]) -> None:
    LOGGER.info("%s%s", DECISION_PREFIX, json.dumps({"scope": scope, **figures}, ensure_ascii=False))
