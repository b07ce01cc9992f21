"""The steps of a funnel query, from the request to provenance. `funnels.pipeline` runs them."""
