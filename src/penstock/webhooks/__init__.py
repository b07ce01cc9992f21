"""Sends the changes of a funnel's outcomes, unit by unit, to addresses that members choose."""
