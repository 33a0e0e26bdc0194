"""One outside system a module: the lake, ZooKeeper, Pulsar's admin API, plain files."""
