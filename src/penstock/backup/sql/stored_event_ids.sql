-- IDs of events in a range. IDs rise with time, so that a range is a piece of history.
SELECT event_id FROM events WHERE event_id BETWEEN {first:String} AND {last:String}
