"""Tests of background workers, and of stores that fail."""
