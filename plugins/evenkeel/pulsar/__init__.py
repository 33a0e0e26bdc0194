"""Pulsar's own rules as pure functions: what a broker would accept, where a topic hashes to, how a bundle splits."""
