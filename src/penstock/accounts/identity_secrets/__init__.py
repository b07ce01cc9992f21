"""Secrets that a backend uses to sign the user IDs of its browsers and apps."""
