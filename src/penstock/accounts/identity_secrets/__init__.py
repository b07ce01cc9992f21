"""Secrets that a backend uses to sign the user IDs sent by its browsers and apps."""
