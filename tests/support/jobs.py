"""The driver program of a plan as a module."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from evenkeel.resources import find_resource
from evenkeel_spark.submission import APPLICATION


def load_driver() -> ModuleType:
    """The module of the driver program, without running the file as a program."""
    spec = importlib.util.spec_from_file_location("plan_driver", find_resource(APPLICATION))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
