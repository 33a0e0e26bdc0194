"""Real Pulsar brokers on this machine, for tests and for `evenkeel local up --pulsar`; Maven provides the jars.

    resolve_jars ──▶ ZooKeeper ──▶ cluster metadata ──▶ bookie ──▶ brokers on 127.0.0.1, 127.0.0.2, 127.0.0.3 …

`cluster.RealCluster` is the cluster. `operator.Operator` creates namespaces and places bundles there, as an operator
would with Pulsar's admin API.
"""
