"""Single units: lists of the units behind a number, and the decision on each of their events."""
