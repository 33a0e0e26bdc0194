"""What Pulsar's own strategies would do with the same cluster."""
