"""Run a job by spark-submit and wait for it; a failure comes back as the error that the job stated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.resources import find_resource
from evenkeel_spark.packages import build_packages_zip, package_folders
from evenkeel_spark.session import is_local
from evenkeel_spark.stated_errors import find_stated_error

JOBS = ("profile_load", "find_split_candidates", "plan_transfers")
DEFAULT_DEADLINE_S = 1800.0
KILL_GRACE_S = 10.0

_LOCAL_SETTINGS = {
    # Nobody looks at the UI of a run of seconds, and a host's own name need not resolve.
    "spark.ui.enabled": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    # Quick starts matter more than peak speed in a run of seconds.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
}


def submit(
    job: str,
    lake_uri: str,
    request_id: str,
    master: str,
    log_path: Path,
    deadline_s: float = DEFAULT_DEADLINE_S,
) -> None:
    """Run a job of a request to its end; its answer is then in the lake, its output in the log file."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="evenkeel-submit-") as scratch:
        command = _command(job, lake_uri, request_id, master, Path(scratch))
        code = _run(command, log_path, deadline_s, job)
    if code != 0:
        raise find_stated_error(log_path.read_text(errors="replace")) or UnavailableError(
            f"spark-submit of {job} ended with code {code}", f"read {log_path}"
        )


def job_file(job: str) -> Path:
    """The file of a job."""
    if job not in JOBS:
        raise InputError(f"there is no Spark job {job!r}", f"choose one of {', '.join(JOBS)}")
    return find_resource(f"spark/jobs/{job}.py")


def _command(job: str, lake_uri: str, request_id: str, master: str, scratch: Path) -> list[str]:
    command = [str(_spark_home() / "bin" / "spark-submit"), "--master", master, "--name", f"evenkeel {job}"]
    if is_local(master):
        for key, value in _LOCAL_SETTINGS.items():
            command += ["--conf", f"{key}={value}"]
    else:
        command += ["--py-files", str(build_packages_zip(scratch / "evenkeel-packages.zip"))]
    return [*command, str(job_file(job)), "--lake", lake_uri, "--request", request_id]


def _run(command: list[str], log: Path, deadline_s: float, job: str) -> int:
    with open(log, "wb") as output:
        # A session of its own: spark-submit starts Java, Java starts Python, and all of them must end together.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=_environment(), start_new_session=True
        )
        try:
            return process.wait(deadline_s)
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(
                f"{job} took longer than {deadline_s:g} s and was ended", f"read {log}, then allow a longer deadline"
            ) from error
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a run, politely first."""
    for wish, grace_s in ((signal.SIGTERM, KILL_GRACE_S), (signal.SIGKILL, None)):
        if process.poll() is not None:
            return
        os.killpg(process.pid, wish)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            continue


def _environment() -> dict[str, str]:
    # Workers and driver import what the caller imports, installed or not; another Spark of the machine stays out.
    roots = dict.fromkeys(str(folder.parent) for folder in package_folders())
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.environ | {
        "SPARK_HOME": str(_spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([*roots, *filter(None, inherited)]),
    }


def _spark_home() -> Path:
    return Path(pyspark.__path__[0]).resolve()
