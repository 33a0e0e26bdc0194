"""ZooKeeper: sessions and their states, nodes and operations, paths, security."""
