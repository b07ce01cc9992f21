"""Releases that are too large for one transaction, so that a worker finishes them."""
