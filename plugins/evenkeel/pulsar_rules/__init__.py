"""Pulsar's own rules as pure functions: what brokers accept, and what their load balancers shed, place and split."""
