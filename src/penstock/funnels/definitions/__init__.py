"""The language of funnels: matches, filters, definitions and their revisions."""
