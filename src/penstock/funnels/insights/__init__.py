"""Units over time: trends by entry, times between steps, what came next."""
