"""Visitor profiles for display and export."""
