"""Settings of a workspace: its name and query limits."""
