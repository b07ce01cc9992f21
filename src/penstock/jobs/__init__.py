"""Slow responses: cancelled when the client disconnects, or computed as background jobs."""
