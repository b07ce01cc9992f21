"""Slow responses: stopped if the client disconnects, or computed as background jobs."""
