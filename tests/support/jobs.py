"""The Spark jobs as functions."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from evenkeel_spark.job import JobContext
from evenkeel_spark.submit import job_file


def load_job(name: str) -> Callable[[JobContext], dict[str, Any]]:
    """The function that a job's file holds, without running the file as a program."""
    spec = importlib.util.spec_from_file_location(f"job_{name}", job_file(name))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    serve: Callable[[JobContext], dict[str, Any]] = getattr(module, name)
    return serve
