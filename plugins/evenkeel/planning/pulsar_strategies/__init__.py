"""What Pulsar's own load-balancing strategies would do with the same cluster."""
