"""Builds the documentation site from the Markdown pages of the repository: `make docs`."""
