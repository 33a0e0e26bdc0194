"""Which bundles to split, and where to cut them."""
