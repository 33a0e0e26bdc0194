"""The plan of one pool."""
