package shedders;

/** One way to rebalance a cluster, kept from cycle to cycle with whatever it remembers. */
interface Shedding {
    /** Looks at the cluster, decides, and moves bundles; returns the nanoseconds spent deciding. */
    long runCycle(PlainCluster cluster);
}
