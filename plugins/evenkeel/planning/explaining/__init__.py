"""Reasons in words: why a bundle moves, why another does not, and what would help."""
