"""Pulsar's side: its own shedders, run by the given Java program on the same files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evenkeel.model.errors import InputError, UnavailableError
from infra.bench.given import GivenPrograms
from infra.bench.workroom import Workroom, run_program

HERE = Path(__file__).resolve().parent
CONFIGURATIONS = (
    "TransferShedder",
    "TransferShedder-tuned",
    "ThresholdShedder-default",
    "ThresholdShedder-least-resource",
    "UniformLoadShedder",
    "AvgShedder",
)
# Eight hours of cycles, the program's own default.
MOST_CYCLES = 480


@dataclass(frozen=True, slots=True)
class PulsarAnswer:
    """What one configuration did until it stopped: how often it unloaded, and where that left the bundles."""

    configuration: str
    cycles: int
    unloads: int
    repeat_unloads: int
    steps: list[dict[str, Any]]


class PulsarShedders:
    """Pulsar's shedders, compiled and ready to run; jars are brought by Maven unless a folder has them."""

    def __init__(self, programs: GivenPrograms, workroom: Workroom, jars: Path | None) -> None:
        assert programs.shedders is not None
        assert programs.pom is not None
        self._source = programs.shedders
        self._pom = programs.pom
        self._workroom = workroom
        self._jars = self._require_jars(jars) if jars else self._bring_jars()
        self._classes = self._compile()

    def answers(self, folder: Path) -> list[PulsarAnswer]:
        """What the six configurations do with a cluster; slow on large ones, so each cluster is asked once."""
        inputs = {
            "source": self._workroom.digest_of(self._source),
            "pom": self._workroom.digest_of(self._pom),
            "cluster": self._workroom.digest_of_cluster(folder),
            "cycles": MOST_CYCLES,
        }
        found = self._workroom.answer("pulsar", inputs, lambda: self._run_all(folder))
        return [PulsarAnswer(**answer) for answer in found]

    def decide_ms(self, folder: Path, times: int) -> list[float]:
        """How long AvgShedder decides on a cluster, several times in one warm JVM; never taken from an earlier run."""
        with TemporaryDirectory() as out:
            lines = self._java("AvgShedderTimes", folder, out, MOST_CYCLES, times)
        return [float(line["decide_ms"]) for line in lines]

    def _run_all(self, folder: Path) -> list[dict[str, Any]]:
        with TemporaryDirectory() as out:
            lines = self._java("PulsarShedders", folder, out, MOST_CYCLES)
            if [line["planner"] for line in lines] != list(CONFIGURATIONS):
                raise InputError(
                    f"{self._source} ran other configurations", f"it should run {', '.join(CONFIGURATIONS)}"
                )
            return [
                {
                    "configuration": line["planner"],
                    "cycles": line["cycles"],
                    "unloads": line["unloads"],
                    "repeat_unloads": line["repeat_unloads"],
                    "steps": json.loads((Path(out) / f"steps-{line['planner']}.json").read_text()),
                }
                for line in lines
            ]

    def _java(self, program: str, *arguments: object) -> list[dict[str, Any]]:
        classpath = f"{self._classes}:{self._jars}/*"
        quiet = f"-Dlog4j2.configurationFile={HERE / 'quiet-log4j2.xml'}"
        said = run_program(["java", quiet, "-cp", classpath, program, *arguments], f"Pulsar's {program}")
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    def _compile(self) -> Path:
        sources = [self._source, HERE / "AvgShedderTimes.java"]
        name = "-".join(self._workroom.digest_of(source)[:12] for source in sources)
        classes = self._workroom.folder / "classes" / name
        if not classes.is_dir():
            command = ["javac", "-nowarn", "-cp", f"{self._jars}/*", *sources, "-d"]
            self._workroom.make_folder(
                classes, lambda folder: run_program([*command, folder], "compiling PulsarShedders.java")
            )
        return classes

    def _bring_jars(self) -> Path:
        jars = self._workroom.folder / "jars" / self._workroom.digest_of(self._pom)[:12]
        if not jars.is_dir():
            command = ["mvn", "-B", "-q", "-f", self._pom, "dependency:copy-dependencies", "-DincludeScope=runtime"]
            self._workroom.make_folder(
                jars, lambda folder: run_program([*command, f"-DoutputDirectory={folder}"], "bringing Pulsar's jars")
            )
        return jars

    @staticmethod
    def _require_jars(jars: Path) -> Path:
        if not any(jars.glob("pulsar-broker-*.jar")):
            raise UnavailableError(f"{jars} has no pulsar-broker jar", "leave --jars out, and Maven brings them")
        return jars.resolve()
