"""Plain files as a snapshot, for what-if planning."""
