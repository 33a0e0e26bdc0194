"""Plan quality: distance from lower bounds, Pulsar's own shedders on the same clusters, time and memory."""
