"""How an expectation suite is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evenkeel.model.errors import InputError
from evenkeel.resources import find_resource


def read_suite(name: str) -> Mapping[str, Any]:
    """The plain JSON of a suite."""
    file = find_resource(f"expectations/suites/{name}.json")
    try:
        suite = json.loads(file.read_text())
    except OSError as error:
        raise InputError(f"cannot read the suite {file} ({error.strerror})", "install evenkeel anew") from error
    except ValueError as error:
        raise InputError(f"the suite {file} is not JSON ({error})", "correct the file") from error
    if not isinstance(suite, dict):
        raise InputError(f"the suite {file} is not a JSON object", "correct the file")
    return suite
