"""Releases with too many visitors for one transaction, which a worker finishes."""
