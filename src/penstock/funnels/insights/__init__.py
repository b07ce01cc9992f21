"""Units over time: trends by entry, times between steps, next events."""
