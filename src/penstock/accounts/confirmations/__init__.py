"""Confirmation that an email address belongs to its user."""
