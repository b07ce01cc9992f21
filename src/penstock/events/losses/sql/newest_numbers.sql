-- The highest shipment number of the installation, and the highest merge number; 0 if none.
SELECT
    (SELECT max(number) FROM shipment_marks WHERE installation = {installation:String}),
    (SELECT max(version) FROM visitor_aliases)
