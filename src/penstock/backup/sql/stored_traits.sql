-- The traits of each visitor that has any.
SELECT scope_id, visitor_id, texts FROM visitor_traits FINAL WHERE notEmpty(texts)
