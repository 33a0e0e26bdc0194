"""What `metrics.prom` says about a plan and about a run of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from evenkeel.model import metrics
from evenkeel.model.canonical import short_id
from evenkeel.model.metrics import Sample
from evenkeel.model.plan import Plan, Rejection, Step, StepKind
from evenkeel.model.run import RunRecord, RunState, StepState
from evenkeel.model.run_events import Decision, RunEvent
from evenkeel.model.timestamps import parse_time
from evenkeel.model.verdict import Verdict


def measure_run(run: RunRecord, events: Sequence[RunEvent], steps: Sequence[Step]) -> list[Sample]:
    """The figures of a finished run; load and sessions of what it moved are those of the plan."""
    settled = {result.order for result in run.results if result.state is StepState.SETTLED}
    moved = [step for step in steps if step.order in settled and step.kind != StepKind.SPLIT]
    ended_s = parse_time(run.ended_at).timestamp()
    decisions = Counter((event.decision.value, event.kind or "run") for event in events)
    traffic = sum(step.throughput_in_bytes_per_s + step.throughput_out_bytes_per_s for step in moved)
    return [
        Sample(metrics.RUN_INFO, 1, {"run": run.run_id, "plan": short_id(run.plan_id)}),
        *(Sample(metrics.RUN_STATE, run.state is state, {"state": state.value}) for state in RunState),
        *(Sample(metrics.RUN_STEPS, run.count(state), {"outcome": state.value}) for state in StepState),
        Sample(metrics.RUN_PLANNED_STEPS, len(steps)),
        Sample(metrics.RUN_SECONDS, ended_s - parse_time(run.started_at).timestamp()),
        Sample(metrics.RUN_SLOWEST_STEP, max((result.seconds or 0.0 for result in run.results), default=0.0)),
        Sample(metrics.RUN_MOVED_BYTES, traffic),
        Sample(metrics.RUN_MOVED_SESSIONS, sum(step.sessions for step in moved)),
        Sample(metrics.RUN_EPOCH, run.epoch),
        Sample(metrics.RUN_WARNINGS, sum(event.decision is Decision.WARNED for event in events)),
        Sample(metrics.RUN_ENDED, ended_s),
        *([Sample(metrics.RUN_SUCCEEDED, ended_s)] if run.state is RunState.DONE else []),
        *(
            Sample(metrics.DECISIONS, count, {"decision": decision, "kind": kind})
            for (decision, kind), count in sorted(decisions.items())
        ),
    ]


def measure_plan(plan: Plan, plan_id: str, rejections: Iterable[Rejection], verdict: Verdict) -> list[Sample]:
    """The figures of a plan that its gate has judged."""
    counts = {"transfer": plan.step_counts.transfers, "split": plan.step_counts.splits}
    counts["unload"] = plan.step_counts.unloads
    sides = {"before": plan.balance.before, "after": plan.balance.after}
    rules = Counter(rejection.rule for rejection in rejections)
    return [
        Sample(metrics.PLAN_INFO, 1, {"plan": short_id(plan_id), "strategy": plan.strategy}),
        *(Sample(metrics.PLAN_STEPS, count, {"kind": kind}) for kind, count in counts.items()),
        *([] if plan.bounds is None else [Sample(metrics.PLAN_BOUND_MOVES, plan.bounds.moves)]),
        *(
            Sample(metric, value, {"resource": str(resource), "when": when})
            for when, side in sides.items()
            for resource, found in side.items()
            for metric, value in (
                (metrics.PLAN_UTILISATION, found.max),
                (metrics.PLAN_IMBALANCE, found.max_over_mean),
            )
        ),
        Sample(metrics.PLAN_SESSIONS, plan.disruption.sessions),
        Sample(metrics.PLAN_CLIENT_SECONDS, plan.disruption.client_seconds),
        *(Sample(metrics.PLAN_REJECTIONS, count, {"rule": rule}) for rule, count in sorted(rules.items())),
        Sample(metrics.PLAN_TRUNCATED, plan.truncated),
        Sample(metrics.PLAN_EXPIRES, plan.expires_at.timestamp()),
        Sample(metrics.PLAN_GATE_PASSED, verdict.passed),
        Sample(metrics.PLAN_GATE_WARNINGS, len(verdict.warnings)),
    ]
