"""How each plan stands: the nodes /evenkeel/<cluster>/plans/<plan id>, and what is removed of them in the end."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from evenkeel.adapters.fence import Fence
from evenkeel.adapters.fenced_transactions import FencedTransactions, FencedWrite
from evenkeel.adapters.zookeeper import (
    Operation,
    TransactionRefusedError,
    UnconfirmedError,
    ZooKeeperSession,
    delete,
    set_data,
)
from evenkeel.model.errors import RefusedError
from evenkeel.model.run import PlanStanding, RunState

MOST_DELETIONS_TOGETHER = 100
MOST_DELETIONS_A_RUN = 5_000
log = logging.getLogger(__name__)


class PlanStandings:
    """The standings of all plans of a cluster; every write is fenced."""

    def __init__(self, session: ZooKeeperSession, home: str, fence: Fence) -> None:
        self._session = session
        self._plans = f"{home}/plans"
        self._fence = fence
        self._transactions = FencedTransactions(session, fence)

    def read_all(self) -> Mapping[str, PlanStanding]:
        """The standing of every plan that has one; one of another version is refused."""
        plan_ids = self._session.children(self._plans)
        nodes = self._session.read([self._path(plan_id) for plan_id in plan_ids])
        return {
            plan_id: PlanStanding.decode(node.data, self._path(plan_id))
            for plan_id, node in zip(plan_ids, nodes, strict=True)
            if node is not None and node.data
        }

    def write(self, standing: PlanStanding, effects: Sequence[Operation] = ()) -> None:
        """Write a standing together with effects; a refusal that is for the effects is raised as it is."""
        path = self._path(standing.plan_id)
        record = set_data("standing", path, standing.encode())
        try:
            self._transactions.commit(FencedWrite((*effects, record), path, standing.encode()))
        except TransactionRefusedError as refusal:
            reason = self._fence.explain(refusal)
            if reason is None and refusal.operation == "standing":
                reason = RefusedError(f"{path} was removed by another hand", "apply the plan again to go on")
            raise reason or refusal from refusal

    def remove_old(self, standings: Mapping[str, PlanStanding], before_ms: int) -> int:
        """Remove plans that ended before a moment, entries first, a bounded number a run; answers how many nodes."""
        removed = 0
        for plan_id, standing in sorted(standings.items(), key=lambda item: (item[1].at_ms, item[0])):
            is_over = standing.state is not RunState.RUNNING and standing.switches is None
            if not is_over or standing.at_ms >= before_ms or removed >= MOST_DELETIONS_A_RUN:
                continue
            try:
                removed += self._remove(plan_id)
            except UnconfirmedError as error:
                # Nothing depends on old nodes being gone; the next run finds what is left.
                log.warning("old nodes of plan %s are left to a later run: %s", plan_id[:12], error)
                return removed
        return removed

    def _remove(self, plan_id: str) -> int:
        steps = f"{self._path(plan_id)}/steps"
        paths = [f"{steps}/{name}" for name in self._session.children(steps)]
        paths += [steps] if self._session.stat(steps) is not None else []
        paths.append(self._path(plan_id))
        for start in range(0, len(paths), MOST_DELETIONS_TOGETHER):
            batch = paths[start : start + MOST_DELETIONS_TOGETHER]
            try:
                self._session.commit([*self._fence.proofs(), *(delete("old", path) for path in batch)])
            except TransactionRefusedError as refusal:
                reason = RefusedError(f"the old journal {steps} cannot be removed ({refusal})", "try again")
                raise self._fence.explain(refusal) or reason from refusal
        return len(paths)

    def _path(self, plan_id: str) -> str:
        return f"{self._plans}/{plan_id}"
