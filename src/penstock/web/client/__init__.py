"""The client for browsers, which this service serves."""
