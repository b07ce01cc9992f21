"""Resets of forgotten passwords, by a link in a mail or from the operator."""
