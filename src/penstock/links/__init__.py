"""Managed mobile links: short public URLs that lead to an app, its store or a web page."""
