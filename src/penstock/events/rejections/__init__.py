"""Rejected items and bodies, kept in memory for the people who send them."""
