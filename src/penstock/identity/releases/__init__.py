"""Releases that are too large for one transaction. A worker finishes them."""
