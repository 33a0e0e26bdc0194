"""The itinerary of a rolling restart: an order of brokers, and for each the moves that empty it before its restart."""
