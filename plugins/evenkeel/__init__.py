"""Evenkeel keeps Apache Pulsar brokers on an even keel: snapshot, plan, check, approve, apply, verify."""

__version__ = "0.1.0"
