"""The jars of a Pulsar broker, brought by Maven once and kept by the digest of what was asked for."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from evenkeel.model.errors import UnavailableError

POM = Path(__file__).with_name("pom.xml")
DEFAULT_JARS_HOME = Path(".evenkeel/pulsar-jars")
MAVEN_DEADLINE_S = 1_200.0
DIGEST_LENGTH = 12
LOG_LINES_SHOWN = 5


def resolve_jars(jars_home: Path = DEFAULT_JARS_HOME) -> Path:
    """The folder of jars, brought first where it is not there yet; about 330 jars and 250 MB."""
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:DIGEST_LENGTH]
    jars = jars_home.resolve() / digest
    if not jars.is_dir():
        jars_home.mkdir(parents=True, exist_ok=True)
        _bring(jars)
    return jars


def _bring(jars: Path) -> None:
    """Copy into a folder beside the right one and rename it, so that a folder is complete if it is there."""
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError("there is no Maven to bring Pulsar's jars", "install Maven 3, then try again")
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="bringing-") as room:
        fresh = Path(room) / "jars"
        # The pom is copied: Maven wants to write beside it, and an installed package may be read-only.
        pom = str(shutil.copy(POM, Path(room) / "pom.xml"))
        command = [maven, "-B", "-q", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime"]
        _run_maven([*command, f"-DoutputDirectory={fresh}"])
        if not any(fresh.glob("pulsar-broker-*.jar")):
            raise UnavailableError("Maven brought no pulsar-broker jar", "run Maven by hand on the package's pom.xml")
        try:
            fresh.rename(jars)
        except OSError:
            # Another process was quicker; its folder holds the same jars.
            if not jars.is_dir():
                raise


def _run_maven(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(
            f"Maven did not bring Pulsar's jars within {MAVEN_DEADLINE_S:.0f} s", "see that its repository answers"
        ) from error
    if done.returncode != 0:
        last = " / ".join(f"{done.stdout}{done.stderr}".strip().splitlines()[-LOG_LINES_SHOWN:])
        raise UnavailableError(f"Maven could not bring Pulsar's jars ({last})", "see that its repository answers")
