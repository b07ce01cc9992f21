"""Slow answers: cancelled when the client disconnects, or computed as jobs in the background."""
