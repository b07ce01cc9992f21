"""Forecasts of open units: where a rate will settle, how sure that is, and how earlier ones did."""
