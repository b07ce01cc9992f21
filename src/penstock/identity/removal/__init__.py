"""Removes visitors with all their rows."""
