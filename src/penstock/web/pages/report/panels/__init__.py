"""The parts of a report: results as in the API, with what the templates need to draw them."""
