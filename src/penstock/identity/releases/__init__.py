"""Releases of many visitors that a worker finishes."""
