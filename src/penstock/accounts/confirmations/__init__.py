"""Proof that an email address belongs to its user, and its consequences."""
