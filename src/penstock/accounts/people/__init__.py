"""Who is in a workspace, who is invited, and what users say about their own accounts."""
