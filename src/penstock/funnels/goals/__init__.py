"""Goals, which are named matches for use in funnels."""
