"""Goals: named matches for use in funnels."""
