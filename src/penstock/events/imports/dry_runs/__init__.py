"""Dry runs: what a file contains, before its import is started."""
