"""Emails to users."""
