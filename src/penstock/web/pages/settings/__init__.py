"""Pages for the settings of the workspace."""
