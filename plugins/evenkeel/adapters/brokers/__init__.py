"""Brokers over HTTP: access, clocks, statistics and the admin API."""
