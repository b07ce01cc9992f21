"""Drivers: properties and events that are associated with a loss after a step."""
