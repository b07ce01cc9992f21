"""Pages about saved cohorts."""
