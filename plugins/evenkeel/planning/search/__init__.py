"""Finds the placement of a pool, and the bounds that hold for any."""
