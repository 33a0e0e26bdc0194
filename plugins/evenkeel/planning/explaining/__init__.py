"""Says in words why something is done, why not, and what would help."""
