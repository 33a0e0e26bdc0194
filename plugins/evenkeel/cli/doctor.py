"""`evenkeel doctor`: what is wrong with this set-up, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from evenkeel.cli.options import LiveOptions, SparkOptions, command
from evenkeel.cli.output import REFUSED_EXIT_CODE, escape, out, print_json, working
from evenkeel.model.errors import EvenkeelError, InputError
from evenkeel.model.plan_summary import count
from evenkeel.model.settings import Settings

if TYPE_CHECKING:
    from evenkeel.stages.doctor import Finding

Value = TypeVar("Value")
DEFAULT_DEADLINE_S = 20.0
AREAS = ("machine", "zookeeper", "brokers", "pulsar", "leftovers", "lake", "spark", "airflow")
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(SparkOptions, LiveOptions):
    """Everything that says where things are; what is not known is not examined."""


@command
def doctor(
    where: DoctorOptions,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="AREA", help=f"Examine this area only; can be repeated: {', '.join(AREAS)}."),
    ] = None,
    deadline: Annotated[
        float, typer.Option("--deadline", metavar="SECONDS", min=1.0, help="Time limit for each probe.")
    ] = DEFAULT_DEADLINE_S,
) -> None:
    """Examine this machine, the cluster and the lake, and say how to fix problems.

    Looks at what Evenkeel needs and at what earlier runs left behind, and changes nothing. Exit code 1 if there is a
    problem.
    """
    from evenkeel.stages.doctor import Patient, examine

    if unknown := [area for area in only or () if area not in AREAS]:
        raise InputError(f"there is no area {unknown[0]!r}", f"use {', '.join(AREAS)}")
    section = where.section_of(where.known_cluster)
    has_cluster = (where.zookeeper or section.zookeeper) is not None
    has_lake = (where.lake_uri or section.lake) is not None
    findings: list[Finding] = []
    patient = Patient(
        _read(findings, lambda: where.connection) if has_cluster else None,
        _read(findings, lambda: where.lake_to_write) if has_lake else None,
        _read(findings, lambda: where.settings) or Settings(),
        where.master,
    )
    with working("examining the set-up"):
        findings += examine(patient, deadline, only or AREAS)
    missing = [] if has_cluster else ["the cluster (give --zookeeper and --cluster)"]
    missing += [] if has_lake else ["the lake (give --lake)"]
    has_problem = any(finding.health == "problem" for finding in findings)
    if where.as_json:
        rows = [finding.to_json() for finding in findings]
        print_json({"healthy": not has_problem, "findings": rows, "not_examined": missing})
    else:
        _print(findings, missing)
    if has_problem:
        raise typer.Exit(REFUSED_EXIT_CODE)


def _read(findings: list[Finding], read: Callable[[], Value]) -> Value | None:
    """Read a part of the configuration; one that is wrong is a finding, so that the other parts are examined."""
    from evenkeel.stages.doctor import Finding, Health

    try:
        return read()
    except EvenkeelError as error:
        findings.append(Finding("machine", "configuration", Health.PROBLEM, error.cause, error.remedy))
        return None


def _print(findings: Sequence[Finding], missing: Sequence[str]) -> None:
    area = ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            out.print(f"[bold]{area}[/]")
        colour = _COLOURS[finding.health]
        out.print(f"  [{colour}]{finding.health:<8}[/] {escape(finding.check)}: {escape(finding.told)}")
        if finding.remedy:
            out.print(f"           [bold]→[/] {escape(finding.remedy)}")
    for what in missing:
        out.print(f"not examined: {escape(what)}")
    counts = Counter(finding.health.value for finding in findings)
    out.print(f"{count(counts['problem'], 'problem')}, {count(counts['warning'], 'warning')}, {counts['ok']} ok")
