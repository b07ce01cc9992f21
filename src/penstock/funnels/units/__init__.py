"""Single counted units: who is behind a number, and the decision on each of their events."""
