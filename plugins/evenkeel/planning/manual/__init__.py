"""Plans whose steps a person chose: one step by hand, or the inverse of a run."""
