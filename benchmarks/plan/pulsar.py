"""Pulsar's side: its own shedders, run by the Java harness on the same files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.plan.cache import Cache, run_program
from evenkeel.model.canonical import digest
from evenkeel.model.errors import UnavailableError

HARNESS = Path(__file__).resolve().parent / "shedders"
POM, QUIET_LOGGING = HARNESS / "pom.xml", HARNESS / "quiet-log4j2.xml"
MAIN_CLASS = "shedders.ShedderHarness"
TIMED_CONFIGURATION = "AvgShedder"
CONFIGURATIONS = (
    "TransferShedder",
    "TransferShedder-tuned",
    "ThresholdShedder-default",
    "ThresholdShedder-least-resource",
    "UniformLoadShedder",
    TIMED_CONFIGURATION,
)
# Pulsar runs a cycle a minute: eight hours.
MOST_CYCLES = 480


@dataclass(frozen=True, slots=True)
class ShedderRun:
    """What one configuration did until it came to rest: how often it unloaded, and where the bundles ended up."""

    configuration: str
    cycles: int
    unloads: int
    repeat_unloads: int
    decide_ms: float
    steps: list[dict[str, Any]]


class PulsarShedders:
    """Pulsar's shedders, compiled and ready to run; Maven downloads the jars unless a folder has them."""

    def __init__(self, cache: Cache, jars: Path | None) -> None:
        self._cache = cache
        self._sources = sorted(HARNESS.glob("*.java"))
        self._source_digest = digest([cache.digest_of(source) for source in self._sources])
        self._jars = _require_jars(jars) if jars else self._download_jars()
        self._classes = self._compile()

    def run_all(self, folder: Path) -> list[ShedderRun]:
        """What the six configurations do with a cluster; this is slow on large ones, so each cluster is run once."""
        inputs = {
            "source": self._source_digest,
            "pom": self._cache.digest_of(POM),
            "cluster": self._cache.digest_of_cluster(folder),
            "cycles": MOST_CYCLES,
        }
        found = self._cache.result("pulsar", inputs, lambda: self._run(folder, 1, CONFIGURATIONS))
        return [ShedderRun(**run) for run in found]

    def decide_ms(self, folder: Path, times: int) -> list[float]:
        """How long AvgShedder takes to decide, several times in one warm JVM; never taken from an earlier run."""
        return [float(run["decide_ms"]) for run in self._run(folder, times, [TIMED_CONFIGURATION])]

    def _run(self, folder: Path, times: int, configurations: Iterable[str]) -> list[dict[str, Any]]:
        java = ["java", f"-Dlog4j2.configurationFile={QUIET_LOGGING}", "-cp", f"{self._classes}:{self._jars}/*"]
        said = run_program(
            [*java, MAIN_CLASS, folder, MOST_CYCLES, times, *configurations], f"Pulsar's shedders on {folder.name}"
        )
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    def _compile(self) -> Path:
        classes = self._cache.folder / "classes" / self._source_digest[:12]
        if not classes.is_dir():
            command = ["javac", "-nowarn", "-cp", f"{self._jars}/*", *self._sources, "-d"]
            self._cache.make_folder(
                classes, lambda folder: run_program([*command, folder], "compiling the shedder harness")
            )
        return classes

    def _download_jars(self) -> Path:
        jars = self._cache.folder / "jars" / self._cache.digest_of(POM)[:12]
        if not jars.is_dir():
            command = ["mvn", "-B", "-q", "-f", POM, "dependency:copy-dependencies", "-DincludeScope=runtime"]
            self._cache.make_folder(
                jars, lambda folder: run_program([*command, f"-DoutputDirectory={folder}"], "downloading Pulsar's jars")
            )
        return jars


def _require_jars(jars: Path) -> Path:
    if not any(jars.glob("pulsar-broker-*.jar")):
        raise UnavailableError(f"{jars} has no pulsar-broker jar", "leave --jars out, and Maven downloads the jars")
    return jars.resolve()
