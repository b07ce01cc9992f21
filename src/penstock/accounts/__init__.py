"""Accounts: users, sessions, workspaces, API keys, websites. Neighbours use `service` and `model`, routes also `callers`."""
