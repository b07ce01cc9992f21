"""Imports of past events: an NDJSON file is saved, then read by a job that survives restarts."""
