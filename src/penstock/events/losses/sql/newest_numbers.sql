-- The highest number of a shipment of an installation, 0 for none, and of a merge.
SELECT
    (SELECT max(number) FROM shipment_marks WHERE installation = {installation:String}),
    (SELECT max(version) FROM visitor_aliases)
