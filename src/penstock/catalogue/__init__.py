"""The catalogue: names, properties and values of stored events, for building funnels."""
