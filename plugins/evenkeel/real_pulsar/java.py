"""How a part of Pulsar is started as a process: class path, heap, and what its libraries must reach into."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evenkeel.fleet.embedded_zookeeper import find_java

METADATA_DRIVERS = (
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
)
# The list of Pulsar's own start script, bin/pulsar.
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
    # Three brokers that start at once on few cores are served sooner by the quick compiler.
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


def java_command(jars: Path, log_settings: Path, main_class: str, arguments: Sequence[str]) -> list[str]:
    """The command line of one part of Pulsar."""
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
