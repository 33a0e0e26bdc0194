"""Pulsar's own rules as pure functions: what a broker would accept, what its balancers would shed, place and split."""
