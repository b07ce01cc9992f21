"""Tests of the metadata DB's errors and time limits."""
