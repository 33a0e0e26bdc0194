"""Applying a plan: preflight, proofs before each step, the step machine and the wave loop."""
