"""Secrets with which a backend signs the user IDs of its browsers and apps."""
