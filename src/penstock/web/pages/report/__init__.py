"""Pages for the report of a funnel."""
