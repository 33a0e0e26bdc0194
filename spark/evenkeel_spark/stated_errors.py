"""Errors that a user can act on, as one line of text, so that they get through Spark unharmed."""

from __future__ import annotations

import json

from evenkeel.model import errors
from evenkeel.model.errors import EvenkeelError

ERROR_PREFIX = "evenkeel-error: "


def encode_error(error: EvenkeelError) -> str:
    """An error as JSON: its class, its cause and its remedy."""
    return json.dumps({"error": type(error).__name__, "cause": error.cause, "remedy": error.remedy}, sort_keys=True)


def decode_error(text: str) -> EvenkeelError:
    """The error that a line of `encode_error` stands for."""
    fields = json.loads(text)
    kind = getattr(errors, fields["error"], EvenkeelError)
    error: EvenkeelError = kind(fields["cause"], fields["remedy"])
    return error


def find_stated_error(output: str) -> EvenkeelError | None:
    """The last error that a job stated in its output; None where it stated none."""
    stated = [line for line in output.splitlines() if ERROR_PREFIX in line]
    try:
        return decode_error(stated[-1].partition(ERROR_PREFIX)[2]) if stated else None
    except (ValueError, KeyError, TypeError):
        return None  # cut off by the log; then nothing is known
