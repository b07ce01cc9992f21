"""The language of funnels: matches and their filters, definitions and their revisions; what is sent, stored and evaluated."""
