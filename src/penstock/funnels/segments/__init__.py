"""Segments, which are named filters for use in any report."""
