-- Events that the catalogue counts differently from the events themselves, but for some websites.
SELECT sum(abs(toInt64(listed) - toInt64(stored))) FROM
(
    SELECT sum(l) AS listed, sum(s) AS stored
    FROM
    (
        SELECT website_id, kind::String AS kind, name::String AS name, toUInt64(events) AS l,
            toUInt64(0) AS s
        FROM catalogue WHERE property = '' AND website_id NOT IN {except:Array(String)}
        UNION ALL
        SELECT website_id, kind::String, name::String, toUInt64(0), count() FROM events
            WHERE kind != 'provider' AND website_id NOT IN {except:Array(String)}
        GROUP BY website_id, kind, name
    )
    GROUP BY website_id, kind, name
)
