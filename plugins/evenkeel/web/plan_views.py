"""Plans as the page shows them: the list, one plan with everything that speaks for or against it, and its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.bundles import tenant_of
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import EvenkeelError, InputError
from evenkeel.model.plan import Plan, Step
from evenkeel.model.plan_summary import name_pool, summarise
from evenkeel.model.run_events import name_run
from evenkeel.model.timestamps import format_time
from evenkeel.orchestration.connection import ClusterAccess
from evenkeel.web.live_state import LiveState, read_live
from evenkeel.web.plan_states import PlanRecords, find_state, read_records

MOST_STEPS = 10_000
MOST_REJECTIONS = 5_000
MOST_POOLS = 500
_STEP_COLUMNS = ("order", "wave", "kind", "bundle", "source", "destination", "reason", "topics", "sessions")


def list_plans(access: ClusterAccess, offset: int, limit: int) -> dict[str, Any]:
    """A page of the cluster's plans, those stored last first."""
    now, live = datetime.now(UTC), read_live(access.connection)
    page = list(islice(_newest_first(access.lake, access.cluster), offset, offset + limit + 1))
    run_names = RunStore(access.lake).ids()
    plans = []
    for plan_id, stored_at in page[:limit]:
        plan, records = _load_plan(access.lake.uri, plan_id), read_records(access.lake, plan_id, run_names)
        plans.append(
            {
                "plan_id": plan_id,
                "stored_at": stored_at,
                "state": find_state(plan, plan_id, records, live, now),
                "strategy": plan.strategy,
                "steps": asdict(plan.step_counts) | {"total": plan.step_counts.total},
                "sessions": plan.disruption.sessions,
                "client_seconds": plan.disruption.client_seconds,
                "balance": _balance(plan),
                "snapshot_id": plan.snapshot_id,
                "expires_at": format_time(plan.expires_at),
                "run_id": records.runs[-1].run_id if records.runs else None,
                "why": _last_word(records),
            }
        )
    return {"plans": plans, "offset": offset, "has_more": len(page) > limit}


def describe_plan(access: ClusterAccess, plan_id: str) -> dict[str, Any]:
    """One plan: the verdict in a line, figures, certificate, checks, answers and age."""
    stored, now = load_plan(access, plan_id), datetime.now(UTC)
    plan, records = stored.plan, read_records(access.lake, plan_id)
    live = read_live(access.connection)
    summary = summarise(plan, stored.rejections, stored.brokers)
    return {
        "plan_id": plan_id,
        "cluster": plan.cluster,
        "state": find_state(plan, plan_id, records, live, now),
        "now": format_time(now),
        "headline": summary.headline,
        "sentences": list(summary.sentences),
        "strategy": plan.strategy,
        "strategy_version": plan.strategy_version,
        "snapshot_id": plan.snapshot_id,
        "taken_at": _taken_at(access.lake, plan),
        "expires_at": format_time(plan.expires_at),
        "tolerance": plan.settings.get("tolerance"),
        "steps": asdict(plan.step_counts) | {"total": plan.step_counts.total},
        "disruption": asdict(plan.disruption),
        "balance": _balance(plan),
        "brokers": _broker_rows(stored),
        "bounds": None if plan.bounds is None else asdict(plan.bounds),
        "gap": None if plan.gap is None else asdict(plan.gap),
        "violations": None if plan.violations is None else asdict(plan.violations),
        "curve": [asdict(point) for point in plan.curve],
        "pools": [asdict(pool) | {"name": name_pool(pool)} for pool in plan.pools[:MOST_POOLS]],
        "pools_in_all": len(plan.pools),
        "counterfactual": [asdict(replay) for replay in plan.counterfactual],
        "truncated": plan.truncated,
        "rejections_in_all": len(stored.rejections),
        "gate": _gate(records),
        "approval": None if records.approval is None else _approval(records),
        "refusals": [refusal.to_json() for refusal in records.refusals],
        "revocation": records.revocation,
        "runs": [{"run_id": run.run_id, "state": str(run.state), "dry_run": run.dry_run} for run in records.runs],
        "live_run_id": _live_run(live, plan_id),
        "marks": sorted(live.marks),
        "unreadable": list(records.unreadable),
        "has_report": access.lake.exists(f"plans/{plan_id}/report.html"),
    }


def describe_steps(access: ClusterAccess, plan_id: str) -> dict[str, Any]:
    """The table of steps by columns, whole: a browser groups and searches ten thousand rows faster than a server."""
    steps = load_plan(access, plan_id).steps
    shown: Sequence[Step] = steps[:MOST_STEPS]
    columns: dict[str, list[Any]] = {name: [getattr(step, name) for step in shown] for name in _STEP_COLUMNS}
    columns["tenant"] = [tenant_of(step.bundle) for step in shown]
    columns["cpu_percent"] = [step.cpu_millipercent / 1000 for step in shown]
    columns["in_bytes_per_s"] = [step.throughput_in_bytes_per_s for step in shown]
    columns["out_bytes_per_s"] = [step.throughput_out_bytes_per_s for step in shown]
    columns["client_seconds"] = [step.disruption_client_ms / 1000 for step in shown]
    return {"plan_id": plan_id, "steps_in_all": len(steps), "rows": len(shown), "columns": columns}


def describe_rejections(access: ClusterAccess, plan_id: str) -> dict[str, Any]:
    """What the plan leaves alone, and the rule that refused it."""
    rows = load_plan(access, plan_id).rejections
    shown = rows[:MOST_REJECTIONS]
    names = ("scope", "rule", "bundle", "broker", "pool", "detail")
    columns = {name: [getattr(row, name) for row in shown] for name in names}
    return {"plan_id": plan_id, "rejections_in_all": len(rows), "rows": len(shown), "columns": columns}


def load_plan(access: ClusterAccess, plan_id: str) -> StoredPlan:
    """A plan of this cluster with its tables; one of another cluster counts as not there."""
    stored = _load_stored(access.lake.uri, plan_id)
    if stored.plan.cluster != access.cluster:
        raise InputError(f"plan {short_id(plan_id)} is not of cluster {access.cluster!r}", "open its own cluster")
    return stored


# A plan never changes: its id is the digest of its bytes. Tables of ten thousand steps take some megabytes each.
@lru_cache(maxsize=8)
def _load_stored(lake_uri: str, plan_id: str) -> StoredPlan:
    return PlanStore(Lake(lake_uri)).load(plan_id)


@lru_cache(maxsize=512)
def _load_plan(lake_uri: str, plan_id: str) -> Plan:
    return PlanStore(Lake(lake_uri)).read_plan(plan_id)


@lru_cache(maxsize=16_384)
def _cluster_of(lake_uri: str, plan_id: str) -> str | None:
    """The cluster of a plan; None where it cannot be read, which must not hide the others."""
    try:
        return _load_plan(lake_uri, plan_id).cluster
    except InputError:
        return None


def _newest_first(lake: Lake, cluster: str) -> Iterator[tuple[str, str]]:
    """The cluster's plans with the time at which each was stored."""
    stored = [(lake.written_ns(f"plans/{plan_id}/plan.json"), plan_id) for plan_id in PlanStore(lake).ids()]
    for written_ns, plan_id in sorted(stored, reverse=True):
        if _cluster_of(lake.uri, plan_id) == cluster:
            yield plan_id, format_time(datetime.fromtimestamp(written_ns / 1e9, UTC))


def _balance(plan: Plan) -> dict[str, Any]:
    return {
        str(resource): {"before": asdict(plan.balance.before[resource]), "after": asdict(plan.balance.after[resource])}
        for resource in plan.balance.resources
    }


def _broker_rows(stored: StoredPlan) -> list[dict[str, Any]]:
    """Each broker with its share of each limit before, after, and at the end of the band; null where unknown."""
    moves: dict[str, list[int]] = {}
    for step in stored.steps:
        if step.destination is not None:
            moves.setdefault(step.source, [0, 0])[0] += 1
            moves.setdefault(step.destination, [0, 0])[1] += 1
    rows: dict[str, dict[str, Any]] = {}
    for row in stored.brokers:
        leaves, arrives = moves.get(row.broker_id, [0, 0])
        shown = rows.setdefault(
            row.broker_id, {"broker": row.broker_id, "pool": row.pool, "leaves": leaves, "arrives": arrives}
        )
        shares = (row.used_before, row.used_after, row.band_limit)
        shown[row.resource] = [value / row.limit for value in shares] if row.limit else None
    return [rows[name] for name in sorted(rows)]


def _gate(records: PlanRecords) -> dict[str, Any] | None:
    verdict = records.verdict
    if verdict is None:
        return None
    checks = [asdict(check) for check in verdict.checks]
    return {"passed": verdict.passed, "warnings": len(verdict.warnings), "checks": checks}


def _approval(records: PlanRecords) -> dict[str, Any]:
    approval = records.approval
    assert approval is not None
    names = ("approved_by", "account", "approved_at", "how")
    return {name: getattr(approval, name) for name in names} | {"is_signed": approval.is_signed}


def _last_word(records: PlanRecords) -> str:
    """Why a plan is where it is, if somebody or something said so."""
    if records.revocation is not None:
        return records.revocation
    if records.verdict is not None and records.verdict.blocking:
        return records.verdict.blocking[0].detail
    return records.refusals[-1].reason if records.refusals and records.approval is None else ""


def _live_run(live: LiveState, plan_id: str) -> str | None:
    """The run that is applying the plan now, if one is."""
    writer = live.writer
    if writer is None or writer.plan_id != plan_id or writer.epoch is None:
        return None
    return name_run(plan_id, writer.epoch)


def _taken_at(lake: Lake, plan: Plan) -> str | None:
    try:
        return format_time(SnapshotStore(lake).load(plan.cluster, plan.snapshot_id).taken_at)
    except EvenkeelError:
        return None
