"""Pages for visitors."""
