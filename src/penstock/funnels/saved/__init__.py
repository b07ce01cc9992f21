"""Saved funnels: create, read, replace, delete, with the revisions of each."""
