-- The highest shipment number of the installation, the highest merge number, and the highest
-- version of traits, which is the number of a bundle in the outbox; 0 if none.
SELECT
    (SELECT max(number) FROM shipment_marks WHERE installation = {installation:String}),
    (SELECT max(version) FROM visitor_aliases),
    (SELECT max(version) FROM visitor_traits)
