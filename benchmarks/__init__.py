"""Everything that `make bench-*` runs."""
