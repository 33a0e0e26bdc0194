"""Frozen values, codecs and digests that every other room speaks in; standard library only."""
