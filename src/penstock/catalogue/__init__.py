"""The catalogue: which events, properties and values were seen, for whoever builds a funnel."""
