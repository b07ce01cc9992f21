"""The audit log: who did what in a workspace."""
