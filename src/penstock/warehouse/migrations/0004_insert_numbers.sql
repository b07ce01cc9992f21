-- Every row keeps the number that the engine gave to its insert, also after parts were put together, so that what came in since
-- some number can be read by itself. Rows of older parts get the lowest number of their part; those are older than any number asked for.
ALTER TABLE events MODIFY SETTING enable_block_number_column = 1;

ALTER TABLE visitor_aliases MODIFY SETTING enable_block_number_column = 1;
