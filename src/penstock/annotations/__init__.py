"""Annotations: short notes on the time axes of reports, such as a release."""
