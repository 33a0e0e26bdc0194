"""Triggered by hand: put drained brokers back into service.

1. `check_request` judges the parameters: the brokers are registered.
2. `unmark_brokers` removes their marks, so that they may own bundles again.

Step 2 writes to the cluster, and Airflow records who asked for it. Bundles come back with the next rebalancing, or at
once by `rollback_plan`.
"""

from evenkeel.orchestration.checking import check_request
from evenkeel.orchestration.clusters import find_clusters
from evenkeel.orchestration.draining import unmark_brokers
from evenkeel.orchestration.parameters import undrain_params

params = undrain_params()

for cluster in find_clusters():
    with cluster.dag("undrain_broker", __doc__, params=params):
        unmark_brokers(cluster.name, check_request(cluster.name, list(params)))
