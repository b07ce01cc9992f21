"""A user's own account: password, sessions, workspaces."""
