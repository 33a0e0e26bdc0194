"""The clusters that have Dags: each one of the configuration file gets its own set.

    evenkeel.toml has        Dag ids
    one cluster              rebalance_window, …
    a default and others     rebalance_window, … for the default, rebalance_window__other, … for each other one
    no default               rebalance_window__a, rebalance_window__b, …
    no file                  rebalance_window, … for the connection `evenkeel_default`

Dag files are parsed often, so this reads one small file and nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param

from evenkeel.configuration import SYSTEM_FOLDER, Configuration, find_configuration
from evenkeel.model.errors import InputError
from evenkeel.orchestration.timetable import MaintenanceWindow, now

if TYPE_CHECKING:
    from evenkeel.configuration import ClusterConfiguration

CONFIG_VARIABLE = "EVENKEEL_CONFIG"
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
SPARK_CONNECTION_ID = "spark_default"
WRITER_POOL = "evenkeel_writer"
LONGEST_TAG = 100
# A backfill would make plans for windows that are over.
RUN_TYPES = ("scheduled", "manual", "operator_triggered", "asset_triggered")
_NOT_IN_DAG_IDS = re.compile(r"[^-.\w]", re.ASCII)


def read_configuration() -> Configuration:
    """The configuration file of this Airflow: `EVENKEEL_CONFIG`, or the usual places but the working folder."""
    given = os.environ.get(CONFIG_VARIABLE)
    return find_configuration(Path(given) if given else None, SYSTEM_FOLDER, Path.home())


@dataclass(frozen=True, slots=True)
class DagCluster:
    """A cluster as its Dags know it; without a name, it is whichever the connection `evenkeel_default` describes."""

    name: str | None = None
    suffix: str = ""
    section: ClusterConfiguration | None = None

    @property
    def spark_connection(self) -> str:
        return (self.section and self.section.spark_connection) or SPARK_CONNECTION_ID

    @property
    def pool(self) -> str:
        """The Airflow pool with one slot, in which this cluster is written to."""
        return f"{WRITER_POOL}{self.suffix}"

    @property
    def windows(self) -> MaintenanceWindow | None:
        """The schedule by the cluster's maintenance windows; None, which means by hand, where it has none."""
        if self.section is None or not self.section.windows.rules:
            return None
        return MaintenanceWindow(self.section.windows_on(now().date()))

    def dag(
        self,
        name: str,
        doc: str | None,
        *,
        schedule: Any = None,
        params: Mapping[str, Param] | None = None,
        timeout: timedelta | None = None,
    ) -> DAG:
        """A Dag for this cluster; one run at a time, and no past ones."""
        title = name.replace("_", " ")
        return DAG(
            f"{name}{self.suffix}",
            dag_display_name=f"{title} · {self.name}" if self.name else title,
            schedule=schedule,
            start_date=FIRST_DAY,
            catchup=False,
            max_active_runs=1,
            allowed_run_types=RUN_TYPES,  # type: ignore[arg-type]
            dagrun_timeout=timeout,
            doc_md=doc,
            tags=["evenkeel", *([f"cluster:{self.name}"[:LONGEST_TAG]] if self.name else [])],
            params=dict(params or {}),
        )


def find_clusters() -> list[DagCluster]:
    """The clusters that get Dags, the default one first; two whose Dags would have the same ids are refused."""
    configuration = read_configuration()
    if not configuration.clusters:
        return [DagCluster()]
    found: dict[str, DagCluster] = {}
    for name, section in configuration.clusters.items():
        suffix = "" if name == configuration.default_cluster else f"__{_NOT_IN_DAG_IDS.sub('-', name)}"
        if suffix in found:
            raise InputError(
                f"{configuration.file}: the Dags of clusters {found[suffix].name!r} and {name!r} would have the same "
                "ids",
                "rename one of the two clusters in the file",
            )
        found[suffix] = DagCluster(name, suffix, section)
    return sorted(found.values(), key=lambda cluster: cluster.suffix)
