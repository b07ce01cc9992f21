"""Mails to users."""
