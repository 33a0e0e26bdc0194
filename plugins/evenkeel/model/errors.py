"""Every error that Evenkeel raises on purpose.

EvenkeelError            something a user has to know, with what to do about it
├── InputError           an outside document is not what it claims to be
├── UnavailableError     an outside system did not answer; trying again may help
│   └── NotDoneError     a write got lost, and surely did not happen; it may be made again once it is proved anew
├── RefusedError         a guard said no; trying again without a change will not help
│   └── FencedOutError   another writer took over; this one must not write again
└── RunStoppedError      a run stopped the line; it can be resumed once the cause is understood
    └── SessionLostError the session ended, and with it all that was known; only a new one may go on
"""

from __future__ import annotations


class EvenkeelError(Exception):
    """A failure stated as one sentence: what is wrong, and what to do about it."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}: {remedy}")
        self.cause = cause
        self.remedy = remedy

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        # Exceptions cross process borders (Spark workers, Airflow tasks) by pickle, which replays args.
        return type(self), (self.cause, self.remedy)


class InputError(EvenkeelError):
    """An outside document is not what it claims to be."""


class UnavailableError(EvenkeelError):
    """An outside system did not answer in time."""


class NotDoneError(UnavailableError):
    """A write got lost on its way, and surely did not happen."""


class RefusedError(EvenkeelError):
    """A guard refused; nothing was written."""


class FencedOutError(RefusedError):
    """Another writer holds the fence."""


class RunStoppedError(EvenkeelError):
    """A run stopped before its end."""


class SessionLostError(RunStoppedError):
    """The ZooKeeper session has ended for good."""


def is_of_one_step(error: EvenkeelError) -> bool:
    """Whether an error speaks of one step alone, so that a run may skip it, or try it once more, and go on."""
    return isinstance(error, RefusedError | NotDoneError) and not isinstance(error, FencedOutError)
