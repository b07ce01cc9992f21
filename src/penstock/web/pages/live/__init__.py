"""Pages that show accepted and rejected events as they arrive."""
