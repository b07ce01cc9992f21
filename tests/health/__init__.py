"""Tests of the health routes: whether a node is alive and ready, and which workers fail."""
