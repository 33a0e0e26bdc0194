"""Search for the new placement of a pool, and lower bounds for every plan of it."""
