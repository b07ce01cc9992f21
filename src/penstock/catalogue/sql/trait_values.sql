-- Tagged texts of a trait with the numbers of visitors, most frequent first, and how many visitors
-- have the trait. Reads the traits of a limited number of visitors.
SELECT text, count() AS visitors, sum(visitors) OVER () AS total
FROM
(
    SELECT texts[{trait:String}] AS text FROM visitor_traits FINAL
    WHERE scope_id IN {scopes:Array(String)} LIMIT {visitors:UInt64}
)
WHERE text != ''
GROUP BY text ORDER BY visitors DESC, text LIMIT {values:UInt64}
