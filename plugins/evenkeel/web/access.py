"""Which clusters the page knows, how to reach one, and by which Dag the rights to it are judged."""

from __future__ import annotations

from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import show
from evenkeel.orchestration.clusters import DagCluster, find_clusters
from evenkeel.orchestration.connection import ClusterAccess
from evenkeel.orchestration.connection import open_access as open_by_name

DAG_NAME = "rebalance_window"
"""The Dag whose rights decide what a user may see and do here; every cluster has one."""


def open_access(cluster: str) -> ClusterAccess:
    """What a route needs to work on a cluster; an unknown one is refused."""
    return open_by_name(_require(cluster).name)


def list_clusters() -> list[str]:
    """The names of all clusters that have Dags."""
    return list(_named())


def dag_of(cluster: str) -> str:
    """The Dag that rebalances a cluster; one that is not configured is judged by the default cluster's."""
    found = _named().get(cluster)
    return f"{DAG_NAME}{found.suffix if found else ''}"


def _require(cluster: str) -> DagCluster:
    known = _named()
    if cluster not in known:
        raise InputError(f"no cluster {show(cluster)} is configured", f"open {' or '.join(known)}")
    return known[cluster]


def _named() -> dict[str, DagCluster]:
    """The clusters by name; where there is no configuration file, the connection says it."""
    return {each.name or open_by_name(None).cluster: each for each in find_clusters()}
