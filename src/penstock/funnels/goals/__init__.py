"""Goals: matches with a name, which funnels refer to."""
