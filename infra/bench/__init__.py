"""How good the plans are: against bounds, against Pulsar's own shedders, and in time and memory."""
