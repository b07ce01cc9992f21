"""The report of a funnel: the way to the engine and back that all answers take, what was counted, its coverage, its file."""
