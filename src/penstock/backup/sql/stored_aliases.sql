-- Which visitor each absorbed one counts as.
SELECT scope_id, visitor_id, canonical_id FROM visitor_aliases FINAL
