"""Examines a set-up: everything that Evenkeel needs, each part by a probe with a deadline, and what to do about it."""

from __future__ import annotations

from evenkeel.stages.doctor.examination import AREAS, Patient, examine
from evenkeel.stages.doctor.findings import Finding, Health

__all__ = ["AREAS", "Finding", "Health", "Patient", "examine"]
