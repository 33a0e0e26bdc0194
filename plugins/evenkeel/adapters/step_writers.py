"""How a step reaches the cluster: one fenced transaction, or a journalled admin call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from evenkeel.adapters.cluster_view import ServiceUnitOwnership, registration_path
from evenkeel.adapters.fence import Fence
from evenkeel.adapters.guarded_writer import Journal
from evenkeel.adapters.native_balancer import NativeBalancer
from evenkeel.adapters.plan_standings import PlanStandings
from evenkeel.adapters.pulsar_admin import PulsarAdmin
from evenkeel.adapters.rehearsal import require_rights
from evenkeel.adapters.zookeeper import Operation, ZooKeeperSession, check, set_data
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError, RefusedError, is_of_one_step
from evenkeel.model.observation import StepStart
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.run import JournalEntry, PlanStanding, RunState, StepState
from evenkeel.model.settings import Settings

MS_PER_DAY = 86_400_000
INTERRUPTED = "the writer died, or lost its session, before it could say how the run ended"


@dataclass(frozen=True, slots=True)
class Guards:
    """What every writer holds: the session, the fence, the journal, the standings, and Pulsar's own balancer."""

    session: ZooKeeperSession
    fence: Fence
    journal: Journal
    standings: PlanStandings
    native: NativeBalancer

    @classmethod
    def of(cls, session: ZooKeeperSession, connection: ClusterConnection, settings: Settings) -> Guards:
        fence = Fence(session, connection.home, settings)
        standings = PlanStandings(session, connection.home, fence)
        native = NativeBalancer(session, connection.pulsar_root, standings)
        return cls(session, fence, Journal(session, connection.home, fence), standings, native)


class FencedWriter:
    """What both ways share: fence first, journal always, and a word on how the plan stands; alone it clears up."""

    def __init__(self, guards: Guards, pulsar_root: str, settings: Settings) -> None:
        self._guards = guards
        self._journal = guards.journal
        self._pulsar_root = pulsar_root
        self._settings = settings
        self._standing: PlanStanding | None = None

    def rehearse(self, steps: Sequence[Step]) -> None:
        """Refuse steps that ZooKeeper's access control would refuse; nothing is written."""
        paths = self._written_by(steps)
        if self._settings.pause_native_balancer:
            paths.append(self._guards.native.path)
        require_rights(self._guards.session, paths)

    def _written_by(self, steps: Sequence[Step]) -> list[str]:
        """The nodes of Pulsar's that steps write."""
        return []

    def standings(self) -> Mapping[str, PlanStanding]:
        return self._guards.standings.read_all()

    def acquire(self, plan_id: str) -> int:
        # Read first: what another version wrote is refused before anything is changed.
        self._journal.entries(plan_id)
        self._guards.native.learn(self.standings().values())
        epoch = self._guards.fence.acquire(plan_id)
        self._journal.open(plan_id)
        return epoch

    def open(self, standing: PlanStanding) -> Sequence[str]:
        standings, native = self._guards.standings, self._guards.native
        found = dict(self.standings())
        native.learn(found.values())
        warnings: list[str] = []
        for plan_id in sorted(found):
            found[plan_id], said = native.restore(found[plan_id])
            warnings += said
            if found[plan_id].state is RunState.RUNNING and plan_id != standing.plan_id:
                found[plan_id] = replace(found[plan_id], state=RunState.LOST, detail=INTERRUPTED)
                standings.write(found[plan_id])
        own = found.pop(standing.plan_id, None)
        own_changes = () if own is None else own.own_changes
        self._standing = replace(standing, holder=self._guards.fence.holder, own_changes=own_changes)
        standings.write(self._standing)
        standings.remove_old(found, standing.at_ms - round(self._settings.journal_kept_days * MS_PER_DAY))
        return warnings

    def journal(self, plan_id: str) -> Mapping[int, JournalEntry]:
        return self._journal.entries(plan_id)

    def await_connection(self) -> None:
        self._guards.session.await_connection()

    def connected_for_s(self) -> float:
        return self._guards.session.connected_for_s

    def pause_native_balancer(self) -> bool:
        if self._standing is None or not self._settings.pause_native_balancer:
            return False
        self._standing = self._guards.native.pause(self._standing)
        return self._standing.switches is not None

    def drive_home(self, step: Step) -> None:
        """A transaction names the new owner for good: nobody has to be reminded of it."""

    def conclude(self, entries: Sequence[JournalEntry]) -> None:
        self._journal.write_together(entries)

    def close(self, standing: PlanStanding) -> Sequence[str]:
        if self._standing is None:
            return ()
        known = self._standing
        ended = replace(standing, holder=known.holder, switches=known.switches, own_changes=known.own_changes)
        restored, warnings = self._guards.native.restore(ended)
        if restored is ended:
            self._guards.standings.write(ended)
        self._standing = restored
        return warnings

    def release(self) -> None:
        self._guards.fence.release()

    def _destination_check(self, step: Step) -> list[Operation]:
        if step.kind != StepKind.TRANSFER:
            return []
        if step.destination is None:
            raise RefusedError(f"the transfer of {step.bundle} has no destination", "plan again")
        return [check("destination", registration_path(self._pulsar_root, step.destination))]


class TransactionWriter(FencedWriter):
    """Extensible load manager, metadata-store view: effect and journal entry in one transaction."""

    opening_state = StepState.APPLIED

    def _written_by(self, steps: Sequence[Step]) -> list[str]:
        return [ServiceUnitOwnership(self._pulsar_root).path(step.bundle) for step in steps]

    def begin(self, starts: Sequence[StepStart]) -> Mapping[int, EvenkeelError]:
        writes = [(start.entry, self._effects(start)) for start in starts]
        answers = self._journal.write_each(writes)
        return {
            start.step.order: refusal for start, refusal in zip(starts, answers, strict=True) if refusal is not None
        }

    def _effects(self, start: StepStart) -> list[Operation]:
        step, view = start.step, start.view
        if start.record is None or view.znode_version is None:
            raise RefusedError(f"{step.bundle} has no service-unit record", "take a new snapshot and plan again")
        path = ServiceUnitOwnership(self._pulsar_root).path(step.bundle)
        return [*self._destination_check(step), set_data("bundle", path, start.record.encode(), view.znode_version)]


class AdminCallWriter(FencedWriter):
    """Modular load manager, or owners in a topic: the intent is journalled, then the owner is asked to act.

    Intent and call are not atomic. A crash between them leaves an open intent; since the call asks for a state
    and not for a change, whoever finds the intent may make the call again, once its deadline has passed. The deadline
    counts from before the intent was journalled: a writer that was stopped in between for long makes no call any more.
    """

    opening_state = StepState.INTENDED

    def __init__(self, guards: Guards, pulsar_root: str, settings: Settings, admin: PulsarAdmin) -> None:
        super().__init__(guards, pulsar_root, settings)
        self._admin = admin

    def begin(self, starts: Sequence[StepStart]) -> Mapping[int, EvenkeelError]:
        deadline_s = self._admin.deadline_s()
        answers = self._journal.write_each([(start.entry, self._destination_check(start.step)) for start in starts])
        refusals = {s.step.order: refusal for s, refusal in zip(starts, answers, strict=True) if refusal is not None}
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

    def drive_home(self, step: Step) -> None:
        """A lookup lets a modular cluster honour the destination that its leader has noted."""
        if step.destination is not None:
            self._admin.drive_home(step.bundle, step.destination)

    def _call(self, step: Step, deadline_s: float) -> None:
        match step.kind:
            case StepKind.SPLIT if step.split_boundary is not None:
                self._admin.split(step.bundle, step.source, step.split_boundary, deadline_s)
            case StepKind.UNLOAD:
                self._admin.unload(step.bundle, step.source, deadline_s)
            case StepKind.TRANSFER if step.destination is not None:
                self._admin.transfer(step.bundle, step.source, step.destination, deadline_s)
            case _:
                raise RefusedError(f"step {step.order} of {step.bundle} lacks what a {step.kind} needs", "plan again")
