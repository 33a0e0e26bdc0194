"""Writing journal entries with their effects, as the step writers do it."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.adapters.fencing.journal import Journal
from evenkeel.adapters.zookeeper.nodes import Operation
from evenkeel.model.errors import EvenkeelError
from evenkeel.model.run import JournalEntry


def write_each(
    journal: Journal, writes: Sequence[tuple[JournalEntry, Sequence[Operation]]]
) -> list[EvenkeelError | None]:
    """Write entries one after the other; returns why some were not written."""
    answers = journal.transactions.commit_once([journal.prepare(entry, effects) for entry, effects in writes])
    refusals = journal.note_answers([entry for entry, _ in writes], answers)
    return [refusals.get(entry.order) for entry, _ in writes]


def write(journal: Journal, entry: JournalEntry, effects: Sequence[Operation] = ()) -> None:
    """Write one entry, or raise why not."""
    (refusal,) = write_each(journal, [(entry, effects)])
    if refusal is not None:
        raise refusal
