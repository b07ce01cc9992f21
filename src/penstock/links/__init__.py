"""Managed mobile links: short public addresses that lead into an app, to its store or to the web."""
