"""The parts of a report: the API's results, prepared for the templates."""
