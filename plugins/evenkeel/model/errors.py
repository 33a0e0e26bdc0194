"""Every error that Evenkeel raises on purpose.

EvenkeelError            a failure that the user has to know about, with what to do
├── InputError           a document or argument is not what it should be
├── UnavailableError     an outside system did not respond; a retry may help
│   └── NotDoneError     a write was lost and certainly did not happen; it may be repeated after new checks
├── RefusedError         a guard refused; a retry without a change does not help
│   └── FencedOutError   another writer took over; this one must not write again
└── RunStoppedError      a run stopped; it can be resumed once the cause is known
    ├── UnconfirmedError a write was sent and no answer came; it may have happened or not
    └── SessionLostError the session ended and everything cached with it; only a new session may continue
"""

from __future__ import annotations


class EvenkeelError(Exception):
    """A failure in one sentence: what is wrong, and what to do about it."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}: {remedy}")
        self.cause = cause
        self.remedy = remedy

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        # Exceptions cross process boundaries (Spark workers, Airflow tasks) by pickle, which replays args.
        return type(self), (self.cause, self.remedy)


class InputError(EvenkeelError):
    """A document or argument is not what it should be."""


class UnavailableError(EvenkeelError):
    """An outside system did not respond in time."""


class NotDoneError(UnavailableError):
    """A write was lost and certainly did not happen."""


class RefusedError(EvenkeelError):
    """A guard refused; nothing was written."""


class FencedOutError(RefusedError):
    """Another writer holds the fence."""


class RunStoppedError(EvenkeelError):
    """A run stopped before it was done."""


class UnconfirmedError(RunStoppedError):
    """A write was sent and no answer came: it may have happened or not."""


class SessionLostError(RunStoppedError):
    """The ZooKeeper session has ended for good."""


def is_of_one_step(error: EvenkeelError) -> bool:
    """Whether an error concerns one step only, so that a run may skip or retry the step and continue."""
    return isinstance(error, RefusedError | NotDoneError) and not isinstance(error, FencedOutError)
