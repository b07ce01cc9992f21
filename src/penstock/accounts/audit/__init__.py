"""The audit log: all actions in a workspace and who performed them."""
