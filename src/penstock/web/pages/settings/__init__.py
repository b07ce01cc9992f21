"""Pages: settings of the workspace."""
