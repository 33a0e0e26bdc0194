"""Real Pulsar brokers on this machine, run from Maven's artifacts: for tests, and for `evenkeel local up --pulsar`.

    resolve_jars ──▶ ZooKeeper ──▶ cluster metadata ──▶ bookie ──▶ brokers on 127.0.0.1, 127.0.0.2, 127.0.0.3 …

`evenkeel.real_pulsar.cluster.RealCluster` is the cluster; `evenkeel.real_pulsar.operator.Operator` does there what
an operator does: makes namespaces, and puts bundles where they are wanted.
"""
