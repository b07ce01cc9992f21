"""Addresses in messages of alerts, which lead members to the report."""
