"""Proof that an email address belongs to its user, and what it voids."""
