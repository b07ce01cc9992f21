"""Disk space: what a workspace's waiting files use, and whether there is room for more."""
