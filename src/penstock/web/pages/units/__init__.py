"""Pages for the units of a funnel, and the trace of one unit."""
