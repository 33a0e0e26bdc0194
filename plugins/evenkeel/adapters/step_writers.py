"""How a step reaches the cluster: one fenced transaction, or a journalled admin call."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.adapters.cluster_view import ServiceUnitOwnership, registration_path
from evenkeel.adapters.guarded_writer import Fence, Journal
from evenkeel.adapters.pulsar_admin import PulsarAdmin
from evenkeel.adapters.zookeeper import check, set_data
from evenkeel.model.errors import RefusedError
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.service_unit import ServiceUnitRecord


class FencedWriter:
    """What both ways share: fence first, journal always."""

    def __init__(self, fence: Fence, journal: Journal, pulsar_root: str) -> None:
        self._fence = fence
        self._journal = journal
        self._pulsar_root = pulsar_root

    def acquire(self, plan_id: str) -> int:
        epoch = self._fence.acquire(plan_id)
        self._journal.open(plan_id)
        return epoch

    def journal(self, plan_id: str) -> Mapping[int, JournalEntry]:
        return self._journal.entries(plan_id)

    def conclude(self, entry: JournalEntry) -> None:
        self._journal.write(entry)

    def release(self) -> None:
        self._fence.release()


class TransactionWriter(FencedWriter):
    """Extensible load manager, metadata-store view: effect and journal entry in one transaction."""

    opening_state = StepState.APPLIED

    def begin(self, step: Step, view: BundleView, record: ServiceUnitRecord | None, entry: JournalEntry) -> None:
        if record is None or step.destination is None or view.znode_version is None:
            raise RefusedError(f"{step.bundle} has no service-unit record", "take a new snapshot and plan again")
        path = ServiceUnitOwnership(self._pulsar_root).path(step.bundle)
        self._journal.write(
            entry,
            [
                check("destination", registration_path(self._pulsar_root, step.destination)),
                set_data("bundle", path, record.encode(), view.znode_version),
            ],
        )


class AdminCallWriter(FencedWriter):
    """Modular load manager: the intent is journalled, then the owner is asked to hand the bundle over.

    Intent and call are not atomic. A crash between them leaves an open intent; since the call asks for a state
    and not for a change, whoever finds the intent may make the call again.
    """

    opening_state = StepState.INTENDED

    def __init__(self, fence: Fence, journal: Journal, pulsar_root: str, admin: PulsarAdmin) -> None:
        super().__init__(fence, journal, pulsar_root)
        self._admin = admin

    def begin(self, step: Step, view: BundleView, record: ServiceUnitRecord | None, entry: JournalEntry) -> None:
        if step.destination is None:
            raise RefusedError(f"{step.bundle} has no destination", "plan again")
        self._journal.write(entry, [check("destination", registration_path(self._pulsar_root, step.destination))])
        self._admin.transfer(step.bundle, step.source, step.destination)
