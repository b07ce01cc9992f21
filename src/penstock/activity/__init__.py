"""Activity: visitors and their timelines, and events as they arrive."""
