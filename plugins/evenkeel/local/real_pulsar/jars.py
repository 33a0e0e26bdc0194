"""Pulsar's jars, downloaded once by Maven, and the Java command lines that run them."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from evenkeel.adapters.machine import find_java
from evenkeel.model.errors import RefusedError, UnavailableError

POM = Path(__file__).with_name("pom.xml")
DEFAULT_VERSION = "4.2.4"
DEFAULT_JARS_HOME = Path(".evenkeel/pulsar-jars")
MAVEN_DEADLINE_S = 1_200.0
DIGEST_LENGTH = 12
LOG_LINES_SHOWN = 5
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?")
METADATA_DRIVERS = (
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
)
# As in Pulsar's own start script, bin/pulsar.
OPENED = (
    "java.base/sun.net",
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
SMALL_AND_QUICK = (
    "-Xms96m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseSerialGC",
    # On few cores, brokers that start at once are up sooner with the quick compiler alone.
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.numDirectArenas=2",
    "-Dpulsar.allocator.exit_on_oom=true",
)
LOG_SETTINGS = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} [%t] %-5level %logger{36} - %msg%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


def resolve_jars(jars_home: Path = DEFAULT_JARS_HOME, version: str = DEFAULT_VERSION) -> Path:
    """Return the folder of a version's jars, and download them first if it is missing: about 330 jars, 250 MB."""
    require_version(version)
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:DIGEST_LENGTH]
    jars = jars_home.resolve() / f"{version}-{digest}"
    if not jars.is_dir():
        jars_home.mkdir(parents=True, exist_ok=True)
        _download(jars, version)
    return jars


def require_version(version: str) -> None:
    """Refuse what cannot be a release; it becomes part of a path and of Maven's command line."""
    if not _VERSION.fullmatch(version):
        raise RefusedError(f"{version!r} is not a version of Pulsar", f"give one such as {DEFAULT_VERSION}")


def _download(jars: Path, version: str) -> None:
    """Download into a folder beside the right one and rename it, so that a folder that exists is complete."""
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError(
            "Maven is needed to download Pulsar's jars, and is not on the path", "install Maven 3, then try again"
        )
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="download-") as folder:
        fresh = Path(folder) / "jars"
        # The pom is copied because Maven writes beside it, and an installed package may be read-only.
        pom = str(shutil.copy(POM, Path(folder) / "pom.xml"))
        command = [maven, "-B", "-q", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime"]
        _run_maven([*command, f"-Dpulsar.version={version}", f"-DoutputDirectory={fresh}"])
        if not any(fresh.glob("pulsar-broker-*.jar")):
            raise UnavailableError(
                "Maven downloaded no pulsar-broker jar", "run Maven by hand on the package's pom.xml"
            )
        try:
            fresh.rename(jars)
        except OSError:
            # Another process was faster; its folder holds the same jars.
            if not jars.is_dir():
                raise


def _run_maven(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(
            f"Maven did not download Pulsar's jars within {MAVEN_DEADLINE_S:.0f} s",
            "check the connection to its repository",
        ) from error
    if done.returncode != 0:
        last = " / ".join(f"{done.stdout}{done.stderr}".strip().splitlines()[-LOG_LINES_SHOWN:])
        raise UnavailableError(
            f"Maven could not download Pulsar's jars ({last})", "check the connection to its repository"
        )


def java_command(jars: Path, log_settings: Path, main_class: str, arguments: Sequence[str]) -> list[str]:
    """The command line of one of Pulsar's processes."""
    opened = [word for package in OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
    return [
        str(find_java()),
        *SMALL_AND_QUICK,
        *METADATA_DRIVERS,
        *opened,
        f"-Dlog4j2.configurationFile={log_settings}",
        "-cp",
        str(jars / "*"),
        main_class,
        *arguments,
    ]
