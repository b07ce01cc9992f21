"""Imports of past events: an NDJSON file is kept, then read through the intake by a job that survives restarts."""
