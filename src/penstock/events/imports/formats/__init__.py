"""Formats of import files. To add a format, add a file with its `Reader`, and tests."""
