"""What happens: visitors with their timelines, and events as they come in."""
