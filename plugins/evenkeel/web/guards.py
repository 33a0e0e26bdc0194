"""Who may call a route: whoever may read, or edit, the Dag that rebalances the cluster.

    no or wrong token                      401
    no right to read the Dag               403
    a write without the right to edit it   403
    a write that another site has sent     403

A route without one of these guards would be open to everybody: Airflow protects nothing in a plugin's app by itself.
"""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, HTTPException, Path, Request, status

from evenkeel.web.access import dag_of

# What Pulsar accepts as a cluster's name; only those that are configured lead anywhere.
CLUSTER_PATTERN = r"^[-=:.A-Za-z0-9_]+$"
LONGEST_CLUSTER = 200
FORBIDDEN_SITES = ("cross-site", "same-site")

ClusterName = Annotated[
    str, Path(pattern=CLUSTER_PATTERN, max_length=LONGEST_CLUSTER, description="Pulsar cluster name.")
]


def may_read(request: Request, user: Any, cluster: str) -> bool:
    return _is_allowed(request, user, cluster, "GET")


def may_edit(request: Request, user: Any, cluster: str) -> bool:
    return _is_allowed(request, user, cluster, "PUT")


def require_reader(request: Request, user: GetUserDep, cluster: ClusterName) -> str:
    """The name of a cluster that the user may see."""
    if not may_read(request, user, cluster):
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"you may not read the Dag {dag_of(cluster)}")
    return cluster


def require_editor(request: Request, user: GetUserDep, cluster: ClusterName) -> str:
    """The name of a cluster that the user may change; a call that another site's page has made is refused."""
    if request.headers.get("Sec-Fetch-Site") in FORBIDDEN_SITES:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "the call comes from another site")
    if not may_edit(request, user, cluster):
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"you may not edit the Dag {dag_of(cluster)}")
    return cluster


ReadableCluster = Annotated[str, Depends(require_reader)]
EditableCluster = Annotated[str, Depends(require_editor)]


def _is_allowed(request: Request, user: Any, cluster: str, method: Any) -> bool:
    try:
        requires_access_dag(method=method, param_dag_id=dag_of(cluster))(request, user)
    except HTTPException as error:
        if error.status_code != status.HTTP_403_FORBIDDEN:
            raise
        return False
    return True
