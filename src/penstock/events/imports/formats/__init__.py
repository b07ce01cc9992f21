"""Formats of import files. To add a format, add a module with its `Reader`, and tests."""
