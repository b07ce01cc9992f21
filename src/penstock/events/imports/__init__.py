"""Imports of past events: a file is saved, then read by a job that survives restarts."""
