"""Pages: the report of a funnel."""
