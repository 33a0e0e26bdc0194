"""Frozen values, codecs and digests that every other package uses; standard library only."""
