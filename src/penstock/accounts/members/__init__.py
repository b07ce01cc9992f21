"""Who is in a workspace, in which role."""
