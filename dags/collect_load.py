"""Every five minutes: record the cluster's load, and decide whether it can be trusted.

1. `restore_balancer` switches Pulsar's shedding and splitting back on if a writer died and left them off.
2. `take_snapshot` reads brokers, bundles, topics and policies and stores them as one snapshot.
3. `check_snapshot` judges the snapshot. If a critical check fails, the run fails and nobody plans from this snapshot.
4. The asset `load_snapshot` is updated, so that other Dags can follow fresh load.

The first step is independent of the others and writes to the cluster only if there is something to restore. Airflow
does not make up for missed runs, because past load cannot be read.
"""

from datetime import timedelta

from evenkeel.orchestration.clusters import find_clusters
from evenkeel.orchestration.collecting import check_snapshot, restore_balancer, take_snapshot

for cluster in find_clusters():
    with cluster.dag("collect_load", __doc__, schedule="*/5 * * * *", timeout=timedelta(minutes=30)):
        restore_balancer(cluster.name)
        check_snapshot(cluster.name, take_snapshot(cluster.name))
