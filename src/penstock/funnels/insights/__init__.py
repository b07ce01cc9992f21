"""Counted units over time: trends by entry, times between steps, what those did next who stopped."""
