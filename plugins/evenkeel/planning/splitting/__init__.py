"""Which bundles are split, where, and when."""
