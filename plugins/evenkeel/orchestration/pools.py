"""The Airflow pools in which clusters are written to: one for each cluster, with one slot.

Airflow never starts a task whose pool does not exist, and tells only the scheduler's log. So the scheduler creates the
pools that are missing when it loads the plugin; those that exist are left as they are.
"""

from __future__ import annotations

import logging
import sys

from evenkeel.orchestration.clusters import find_clusters

SCHEDULER = "scheduler"
DESCRIPTION = "Evenkeel writes to one cluster at a time in here."
log = logging.getLogger(__name__)


def create_missing_pools() -> None:
    """Create the writers' pools if this process is the scheduler, which may write to Airflow's database."""
    if SCHEDULER not in sys.argv:
        return
    try:
        from airflow.models.pool import Pool

        for cluster in find_clusters():
            if Pool.get_pool(cluster.pool) is None:
                Pool.create_or_update_pool(cluster.pool, slots=1, description=DESCRIPTION, include_deferred=False)
                log.info("created the pool %s with one slot", cluster.pool)
    except Exception as error:
        # A plugin that cannot be loaded would take the maintenance windows with it.
        log.error("Evenkeel's pools cannot be created (%s): create them with `airflow pools set`", error)
