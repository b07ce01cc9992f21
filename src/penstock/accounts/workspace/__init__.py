"""Settings for a workspace: its name and query limits."""
