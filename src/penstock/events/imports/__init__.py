"""Imports of past events. A file is saved first, then read by a job that survives restarts."""
