"""The audit log: actions in a workspace and who performed them."""
