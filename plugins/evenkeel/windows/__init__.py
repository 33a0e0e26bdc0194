"""Maintenance windows: when a cluster may be rebalanced, by rules that open them and blackouts that close them."""
