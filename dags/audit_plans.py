"""Daily: compare what runs did with what their plans promised, learn from it, and tell what needs attention.

1. `audit_cluster` compares the predicted with the realised load after each run of the last week, learns what messages
   cost in cpu and how long hand-overs take, and looks for oscillation, drift, broken policies, forgotten marks and
   switches. The findings go to the lake, as tables and as a page, and the asset `audit` is updated.
2. `require_nothing_critical` fails if there is a critical finding, so that Airflow tells whoever watches its failures.

Nothing is written to the cluster. The next plan uses what was learnt.
"""

from datetime import timedelta

from evenkeel.orchestration.auditing import audit_cluster, require_nothing_critical
from evenkeel.orchestration.clusters import find_clusters

for cluster in find_clusters():
    with cluster.dag("audit_plans", __doc__, schedule="0 6 * * *", timeout=timedelta(hours=2)):
        require_nothing_critical(audit_cluster(cluster.name))
