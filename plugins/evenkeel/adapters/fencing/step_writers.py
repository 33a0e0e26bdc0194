"""How a step reaches the cluster: one fenced transaction, or a journalled admin call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from evenkeel.adapters.brokers.admin_api import PulsarAdmin
from evenkeel.adapters.brokers.modular_transfer import ModularTransfer
from evenkeel.adapters.cluster.migration import MigrationGuard
from evenkeel.adapters.cluster.registrations import incarnation_of
from evenkeel.adapters.fencing.fence import NO_NODE_IS_EVER_AT, Fence, require_rights
from evenkeel.adapters.fencing.journal import Journal
from evenkeel.adapters.fencing.left_switches import describe_left_off
from evenkeel.adapters.fencing.native_balancer import NativeBalancer
from evenkeel.adapters.fencing.plan_status import PlanStatuses
from evenkeel.adapters.fencing.roots import EvenkeelRoots
from evenkeel.adapters.zookeeper.nodes import ANY_VERSION, Operation, ZNode, check, set_data
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError, RefusedError, is_of_one_step
from evenkeel.model.observation import StepStart
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.run import JournalEntry, PlanStatus, RunState, StepState
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from evenkeel.ports import Clock

MS_PER_DAY = 86_400_000
INTERRUPTED = "the writer died, or lost its session, before it could record how the run ended"


@dataclass(frozen=True, slots=True)
class Guards:
    """What every writer holds: the session, the fence, the journal, the plans' status, and Pulsar's own balancer."""

    session: ZooKeeperSession
    fence: Fence
    journal: Journal
    statuses: PlanStatuses
    native: NativeBalancer
    paths: PulsarPaths
    migration: MigrationGuard
    roots: EvenkeelRoots

    @classmethod
    def of(
        cls,
        session: ZooKeeperSession,
        connection: ClusterConnection,
        settings: Settings,
        clock: Clock | None = None,
        write_back: Mapping[str, str] | None = None,
    ) -> Guards:
        own, pulsar = EvenkeelPaths(connection.home), PulsarPaths.of(connection)
        fence = Fence(session, own, settings, clock)
        statuses = PlanStatuses(session, own, fence)
        native = NativeBalancer(session, pulsar, statuses, write_back)
        migration = MigrationGuard(session, pulsar)
        roots = EvenkeelRoots(session, connection)
        return cls(session, fence, Journal(session, own, fence), statuses, native, pulsar, migration, roots)


class FencedWriter:
    """What both kinds of writer share: fence, journal and status. By itself it can only tear down after other runs."""

    _is_modular = False

    def __init__(self, guards: Guards, settings: Settings) -> None:
        self._guards = guards
        self._journal = guards.journal
        self._settings = settings
        self._status: PlanStatus | None = None

    def rehearse(self, steps: Sequence[Step]) -> None:
        """Refuse steps that ZooKeeper's access control would refuse, and a second Evenkeel root; writes nothing."""
        self._guards.roots.require_only_one()
        self._guards.native.learn(self.statuses().values())
        paths = self._written_by(steps)
        if self._settings.pause_native_balancer:
            paths.append(self._guards.native.path)
        require_rights(self._guards.session, paths)

    def _written_by(self, steps: Sequence[Step]) -> list[str]:
        """The nodes in Pulsar's tree that steps write."""
        return []

    def statuses(self) -> Mapping[str, PlanStatus]:
        return self._guards.statuses.read_all()

    def acquire(self, plan_id: str) -> int:
        # Read first: what another version wrote about this plan is refused before anything is changed.
        self._journal.require_readable(plan_id)
        self._guards.native.learn(self.statuses().values())
        epoch = self._guards.fence.acquire(plan_id)
        self._guards.roots.claim(self._guards.fence.proofs())
        self._journal.open(plan_id)
        return epoch

    def open(self, status: PlanStatus) -> Sequence[str]:
        statuses, native = self._guards.statuses, self._guards.native
        if status.state is RunState.RUNNING:
            # Again, now that the fence exists: of two writers that start below two roots at once, one sees the other.
            self._guards.roots.require_only_one()
        found = dict(self.statuses())
        native.learn(found.values())
        warnings: list[str] = []
        for plan_id in sorted(found):
            warnings += self._tell_left_off(found[plan_id], status)
            restoration = native.restore(found[plan_id])
            found[plan_id] = restoration.status
            warnings += restoration.warnings
            if found[plan_id].state is RunState.RUNNING and plan_id != status.plan_id:
                found[plan_id] = replace(found[plan_id], state=RunState.LOST, detail=INTERRUPTED)
                statuses.write(found[plan_id])
        own = found.pop(status.plan_id, None)
        own_changes = () if own is None else own.own_changes
        self._status = replace(status, holder=self._guards.fence.holder, own_changes=own_changes)
        statuses.write(self._status)
        statuses.remove_old(found, status.at_ms - round(self._settings.journal_kept_days * MS_PER_DAY))
        return warnings

    @staticmethod
    def _tell_left_off(found: PlanStatus, opened: PlanStatus) -> list[str]:
        """Say that a run which is gone left Pulsar's balancer off; a run that tears down after itself says nothing."""
        is_own_teardown = found.plan_id == opened.plan_id and opened.state is not RunState.RUNNING
        return [] if found.switches is None or is_own_teardown else [f"{describe_left_off(found)}; it is restored now"]

    def journal(self, plan_id: str) -> Mapping[int, JournalEntry]:
        return self._journal.entries(plan_id)

    def await_connection(self) -> None:
        self._guards.session.await_connection()

    def connected_for_s(self) -> float:
        return self._guards.session.connected_for_s

    def now(self) -> datetime:
        return self._guards.fence.clock.now()

    def require_steady_clock(self) -> None:
        self._guards.fence.clock.require_steady()

    def require_no_migration(self) -> None:
        self._guards.migration.require_none()

    def pause_native_balancer(self) -> bool:
        if self._status is None or not self._settings.pause_native_balancer:
            return False
        self._status = self._guards.native.pause(self._status)
        return self._status.switches is not None

    def enforce_destination(self, step: Step) -> None:
        """Extensible clusters keep the destination in their records, so there is nothing to enforce."""

    def collision_keys(self, step: Step) -> frozenset[str]:
        return frozenset()

    def unloads(self, step: Step) -> int:
        return 0

    def conclude(self, entries: Sequence[JournalEntry]) -> None:
        self._journal.write_together(entries)

    def close(self, status: PlanStatus) -> Sequence[str]:
        if self._status is None:
            return ()
        known = self._status
        ended = replace(status, holder=known.holder, switches=known.switches, own_changes=known.own_changes)
        restoration = self._guards.native.restore(ended)
        if restoration.status is ended:
            self._guards.statuses.write(ended)
        self._status = restoration.status
        return restoration.warnings

    def release(self) -> None:
        self._guards.fence.release()

    def _journal_starts(
        self, starts: Sequence[StepStart], effects: Sequence[Sequence[Operation]]
    ) -> dict[int, EvenkeelError]:
        """Journal steps together with their effects, and measure the clock by what was written."""
        proofs = self._guards.migration.proofs()
        writes = [self._journal.prepare(start.entry, [*proofs, *of]) for start, of in zip(starts, effects, strict=True)]
        fence, before = self._guards.fence, self._guards.fence.clock.read()
        answers = self._journal.transactions.commit_once(writes)
        refusals = self._journal.note_answers([start.entry for start in starts], answers)
        written = [write.witness for write, answer in zip(writes, answers, strict=True) if answer is None]
        if written:
            fence.measure_clock(before, written[-1])
        return refusals

    def _check_destinations(self, starts: Sequence[StepStart]) -> list[list[Operation]]:
        """For each step: its destination is registered, as the incarnation of the plan where a version can tell."""
        steps = [start.step for start in starts]
        paths = {step.destination: self._guards.paths.broker(step.destination) for step in steps if step.destination}
        nodes = dict(zip(paths, self._guards.session.get(list(paths.values())), strict=True))
        return [[] if step.destination is None else [self._check(step, nodes[step.destination])] for step in steps]

    def _check(self, step: Step, node: ZNode | None) -> Operation:
        path = self._guards.paths.broker(str(step.destination))
        if node is not None and incarnation_of(node, self._is_modular) != step.destination_incarnation:
            # Refused by ZooKeeper like any other step whose destination has changed.
            return check("destination", path, NO_NODE_IS_EVER_AT)
        # A modular broker rewrites its registration with every load report, so its version tells nothing.
        return check("destination", path, ANY_VERSION if node is None or self._is_modular else node.version)


class TransactionWriter(FencedWriter):
    """Extensible load manager, metadata-store view: effect and journal entry in one transaction."""

    opening_state = StepState.APPLIED

    def _written_by(self, steps: Sequence[Step]) -> list[str]:
        return [self._path(step) for step in steps]

    def begin(self, starts: Sequence[StepStart]) -> Mapping[int, EvenkeelError]:
        checks = self._check_destinations(starts)
        effects = [[*check, self._effect(start)] for check, start in zip(checks, starts, strict=True)]
        return self._journal_starts(starts, effects)

    def _effect(self, start: StepStart) -> Operation:
        step, view = start.step, start.view
        if start.record is None or view.znode_version is None:
            raise RefusedError(f"{step.bundle} has no service-unit record", "take a new snapshot and plan again")
        return set_data("bundle", self._path(step), start.record.encode(), view.znode_version)

    def _path(self, step: Step) -> str:
        return self._guards.paths.owner(LoadManager.EXTENSIBLE, step.bundle)


class AdminCallWriter(FencedWriter):
    """Owners in a topic, or (`ModularWriter`) in ephemeral nodes: the intent is journalled, then the owner is asked.

    Intent and call are not atomic. A crash between them leaves an open intent; since the call asks for a state and not
    for a change, whoever finds the intent may make the call again, once its deadline has passed. The deadline counts
    from before the intent was journalled: a writer that was suspended in between for long makes no call any more.
    """

    opening_state = StepState.INTENDED

    def __init__(self, guards: Guards, settings: Settings, admin: PulsarAdmin) -> None:
        super().__init__(guards, settings)
        self._admin = admin

    def begin(self, starts: Sequence[StepStart]) -> Mapping[int, EvenkeelError]:
        deadline_s = self._admin.deadline_s()
        refusals = self._journal_starts(starts, self._check_destinations(starts))
        intended = [start.step for start in starts if start.step.order not in refusals]
        if not intended or any(not is_of_one_step(refusal) for refusal in refusals.values()):
            return refusals
        with ThreadPoolExecutor(max_workers=len(intended)) as pool:
            calls = [(step, pool.submit(self._call, step, deadline_s)) for step in intended]
        for step, call in calls:
            error = call.exception()
            if isinstance(error, EvenkeelError) and is_of_one_step(error):
                refusals[step.order] = error
            elif error is not None:
                raise error
        return refusals

    def _call(self, step: Step, deadline_s: float) -> None:
        # The intent was journalled a moment ago, but this process may have been suspended since: another writer may
        # have taken over. The deadline, which the client checks right before it sends, covers what comes after.
        self._guards.fence.require_held()
        match step.kind:
            case StepKind.SPLIT if step.split_boundary is not None:
                self._admin.split(step.bundle, step.source, step.split_boundary, deadline_s)
            case StepKind.UNLOAD:
                self._admin.unload(step.bundle, step.source, deadline_s)
            case StepKind.TRANSFER if step.destination is not None:
                self._transfer(step, step.destination, deadline_s)
            case _:
                raise RefusedError(f"step {step.order} of {step.bundle} lacks what a {step.kind} needs", "plan again")

    def _transfer(self, step: Step, destination: str, deadline_s: float) -> None:
        self._admin.transfer(step.bundle, step.source, destination, deadline_s)


class ModularWriter(AdminCallWriter):
    """Modular load manager: an unload, then a lookup at the destination; the owner's node tells who got the bundle."""

    _is_modular = True

    def __init__(self, guards: Guards, settings: Settings, admin: PulsarAdmin, modular: ModularTransfer) -> None:
        super().__init__(guards, settings, admin)
        self._modular = modular
        self._unloads: Counter[int] = Counter()

    def enforce_destination(self, step: Step) -> None:
        """Have the destination take a bundle that was unloaded, if nobody owns it.

        A writer that was overtaken must not do that, so this is guarded as the first call is: see `_call`.
        """
        if step.destination is not None:
            deadline_s = self._admin.deadline_s()
            self._guards.fence.require_held()
            self._modular.enforce_destination(step.bundle, step.destination, step.topics, deadline_s)

    def collision_keys(self, step: Step) -> frozenset[str]:
        """A step's range: before 4.0.10 and 4.2.1 leaders note a destination by range, without the namespace."""
        return frozenset({step.bundle.rpartition("/")[2]})

    def unloads(self, step: Step) -> int:
        return self._unloads[step.order]

    def _transfer(self, step: Step, destination: str, deadline_s: float) -> None:
        def count() -> None:
            self._unloads[step.order] += 1

        self._modular.transfer(step.bundle, step.source, destination, step.topics, deadline_s, count)
