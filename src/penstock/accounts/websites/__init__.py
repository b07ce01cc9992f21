"""Websites and mobile apps of a workspace."""
