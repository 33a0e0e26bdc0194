"""Decides which bundles move where: pure functions over integer arrays, without clock, environment or chance."""
