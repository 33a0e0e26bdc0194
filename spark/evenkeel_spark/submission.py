"""One Spark application makes a plan: how it is described, and how spark-submit runs it.

`SparkSubmission` serves the command line (remote masters) and the Dags (SparkSubmitOperator) alike. Importing this
module imports no Spark.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import evenkeel
import evenkeel_spark
from evenkeel.model.errors import UnavailableError
from evenkeel.resources import find_resource
from evenkeel_spark.stated_errors import find_stated_error

APPLICATION = "spark/jobs/plan.py"
APPLICATION_NAME = "evenkeel plan"
DEFAULT_DEADLINE_S = 1800.0
KILL_GRACE_S = 10.0

# The first moment that the format knows, so that it does not matter when sources were checked out.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class SparkSubmission:
    """What is submitted to Spark; the master is the submitter's to choose."""

    application: Path
    name: str
    arguments: tuple[str, ...]
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    py_files: tuple[Path, ...] = ()

    def with_packages(self, folder: Path) -> SparkSubmission:
        """The same with the packages that executors import, as an archive in this folder."""
        return replace(self, py_files=(build_packages(folder),))

    def command(self, master: str) -> list[str]:
        """The command line of spark-submit."""
        command = [str(_spark_home() / "bin" / "spark-submit"), "--master", master, "--name", self.name]
        for key, value in self.conf.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--py-files", ",".join(map(str, self.py_files))]
        return [*command, str(self.application), *self.arguments]

    def operator_arguments(self) -> dict[str, Any]:
        """The same for Airflow's SparkSubmitOperator."""
        return {
            "application": str(self.application),
            "name": self.name,
            "application_args": list(self.arguments),
            "py_files": ",".join(map(str, self.py_files)),
            "conf": dict(self.conf),
            "env_vars": dict(self.environment),
        }


def is_local(master: str) -> bool:
    """Whether driver and executors are one process of this machine."""
    return master == "local" or master.startswith("local[")


def describe_submission(lake_uri: str, request_id: str) -> SparkSubmission:
    """The application that serves a request to plan."""
    return SparkSubmission(
        application=find_resource(APPLICATION),
        name=APPLICATION_NAME,
        arguments=("--lake", lake_uri, "--request", request_id),
        # Without it Spark's Python workers take whatever python3 comes first on the path.
        environment={"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)},
    )


def submit(lake_uri: str, request_id: str, master: str, log: Path, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
    """Run the jobs of a request by spark-submit; their answers are then in the lake, their output in the log file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-submit-") as scratch:
        submission = describe_submission(lake_uri, request_id).with_packages(Path(scratch))
        code = _run(submission.command(master), _environment(submission), log, deadline_s)
    if code != 0:
        raise find_stated_error(log.read_text(errors="replace")) or UnavailableError(
            f"spark-submit failed with exit code {code}", f"read {log}"
        )


def build_packages(folder: Path) -> Path:
    """Write the packages that executors import to an archive; equal sources give equal bytes."""
    # Named .zip, because a .whl would stay with the driver.
    target = folder / "evenkeel-packages.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for folder in _package_folders():
            for file in sorted(folder.rglob("*.py")):
                entry = zipfile.ZipInfo(str(file.relative_to(folder.parent)), _ZIP_EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, file.read_bytes())
    return target


def _package_folders() -> list[Path]:
    """Where the packages are that every Python process of an application imports."""
    return [Path(package.__path__[0]).resolve() for package in (evenkeel, evenkeel_spark)]


def _run(command: list[str], environment: Mapping[str, str], log: Path, deadline_s: float) -> int:
    with open(log, "wb") as output:
        # A session of its own: spark-submit starts Java, Java starts Python, and all of them must end together.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            return process.wait(deadline_s)
        except subprocess.TimeoutExpired as error:
            raise deadline_exceeded(deadline_s, log) from error
        finally:
            _terminate(process)


def deadline_exceeded(deadline_s: float, log: Path) -> UnavailableError:
    """The error of a run that was stopped because it took too long."""
    return UnavailableError(
        f"planning took longer than {deadline_s:g} s and was stopped", f"read {log}, then allow a longer --job-deadline"
    )


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """Stop what is left of a run, politely first."""
    for wanted, grace_s in ((signal.SIGTERM, KILL_GRACE_S), (signal.SIGKILL, None)):
        if process.poll() is not None:
            return
        os.killpg(process.pid, wanted)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            continue


def _environment(submission: SparkSubmission) -> dict[str, str]:
    # Workers and driver import what the caller imports, installed or not; another Spark of the machine stays out.
    roots = dict.fromkeys(str(folder.parent) for folder in _package_folders())
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return (
        os.environ
        | dict(submission.environment)
        | {
            "SPARK_HOME": str(_spark_home()),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([*roots, *filter(None, inherited)]),
        }
    )


def _spark_home() -> Path:
    import pyspark

    return Path(pyspark.__path__[0]).resolve()
