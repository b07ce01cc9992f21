"""Read-only links to reports, for people without an account."""
