"""Visitor profiles, for people to read."""
