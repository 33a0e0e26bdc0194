"""The status of each plan: the nodes /evenkeel/<cluster>/plans/<plan id>, and the removal of old ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from evenkeel.adapters.fencing.fence import Fence
from evenkeel.adapters.fencing.journal import FencedTransactions, FencedWrite, JournalReader
from evenkeel.adapters.zookeeper.nodes import Operation, TransactionRefusedError, delete, set_data
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import RefusedError, UnavailableError, UnconfirmedError
from evenkeel.model.run import PlanStatus, RunState

MOST_DELETIONS_TOGETHER = 100
MOST_DELETIONS_A_RUN = 5_000
log = logging.getLogger(__name__)


class _ForeignNodeError(Exception):
    """An old plan's nodes cannot be removed, because somebody else has put something below them."""


class PlanStatuses:
    """The status of all plans of a cluster; every write is fenced."""

    def __init__(self, session: ZooKeeperSession, paths: EvenkeelPaths, fence: Fence) -> None:
        self._session = session
        self._paths = paths
        self._fence = fence
        self._transactions = FencedTransactions(session, fence)

    def read_all(self) -> Mapping[str, PlanStatus]:
        """The status of every plan that has one that this version can read."""
        found = JournalReader(self._session, self._paths).statuses()
        return {plan_id: status for plan_id, status in found.items() if status is not None}

    def write(self, status: PlanStatus, effects: Sequence[Operation] = ()) -> None:
        """Write a status together with effects; a refusal of the effects is raised as it is."""
        path = self._paths.plan(status.plan_id)
        record = set_data("status", path, status.encode())
        try:
            self._transactions.commit(FencedWrite((*effects, record), path, status.encode()))
        except TransactionRefusedError as refusal:
            reason = self._fence.explain(refusal)
            if reason is None and refusal.operation == "status":
                reason = RefusedError(f"{path} was removed by somebody else", "apply the plan again to go on")
            raise reason or refusal from refusal

    def remove_old(self, statuses: Mapping[str, PlanStatus], before_ms: int) -> int:
        """Remove plans that ended before a moment, a bounded number of nodes a run; returns how many nodes."""
        removed = 0
        for plan_id, status in sorted(statuses.items(), key=lambda item: (item[1].at_ms, item[0])):
            is_over = status.state is not RunState.RUNNING and status.switches is None
            if not is_over or status.at_ms >= before_ms or removed >= MOST_DELETIONS_A_RUN:
                continue
            try:
                removed += self._remove(plan_id)
            except _ForeignNodeError as error:
                log.warning(
                    "old nodes of plan %s stay: %s; remove what is below them by hand", short_id(plan_id), error
                )
            except (UnconfirmedError, UnavailableError) as error:
                # Nothing depends on old nodes being gone; the next run finds what is left.
                log.warning("old nodes of plan %s are left to a later run: %s", short_id(plan_id), error)
                return removed
        return removed

    def _remove(self, plan_id: str) -> int:
        """Remove a plan, its entries first, so that what a crash leaves behind is still found."""
        steps = self._paths.steps(plan_id)
        paths = [f"{steps}/{name}" for name in self._session.child_names(steps)]
        paths += [steps] if self._session.stat(steps) is not None else []
        paths.append(self._paths.plan(plan_id))
        for start in range(0, len(paths), MOST_DELETIONS_TOGETHER):
            batch = paths[start : start + MOST_DELETIONS_TOGETHER]
            try:
                self._session.commit([*self._fence.proofs(), *(delete("old", path) for path in batch)])
            except TransactionRefusedError as refusal:
                raise self._fence.explain(refusal) or _ForeignNodeError(f"{refusal.path}: {refusal}") from refusal
        return len(paths)
