"""Everything that writes to ZooKeeper: fence, journal, plan status, step writers, Pulsar's switches, directives."""
