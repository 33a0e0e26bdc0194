"""Applying a plan: preflight, proofs before each step, waves, resumption, health, teardown. Talks to ports only."""
