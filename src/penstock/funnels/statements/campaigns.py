"""The statement of the attribution report: clicks, installs and opens alongside a funnel's entries.

traffic   clicks of links, and the installs and opens that they led to, by value
    groups    one row per value with all figures, and the total
    ordered   groups in their order

With a funnel, the relations of its report come first. Its cohorts are values of the touch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.base.ids import WebsiteId
from penstock.base.paging import Page
from penstock.funnels.statements import figures
from penstock.funnels.statements.binder import Binder
from penstock.funnels.statements.query import Plan, Statement
from penstock.funnels.statements.relations import compose, with_relations
from penstock.funnels.statements.report import report_relations


class CampaignSort(StrEnum):
    """Figures by which groups can be sorted."""

    CLICKS = "clicks"
    INSTALLS = "installs"
    OPENS = "opens"
    ENTERED = "entered"
    COMPLETED = "completed"


FIGURES = (
    "clicks",
    "installs",
    "opens",
    "entered",
    "completed",
    "pending",
    "early",
    "excluded",
    "reopened",
    "reopened_excluded",
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The clicks, installs and opens to count, and the field that groups them.

    column: `utm_source`, `utm_medium`, `utm_campaign` or `link`. start_ms, end_ms: the period; both
    or neither are set. slugs: slugs of clicked links by link ID, if column is `link`.
    """

    website_ids: tuple[WebsiteId, ...]
    column: str
    start_ms: int | None = None
    end_ms: int | None = None
    slugs: Mapping[str, str] | None = None


def campaigns(
    traffic: Traffic, funnel: Plan | None, sort: CampaignSort, page: Page | None
) -> Statement:
    """Select the total, then the groups in descending order of `sort`.

    funnel: a plan whose only breakdown property is a touch field. page: None for all groups.
    Columns: is_total, value (empty if missing), groups (number of all groups), `FIGURES`.
    """
    binder = Binder() if funnel is None else funnel.binder
    relations = {} if funnel is None else report_relations(funnel)
    relations["traffic"] = _traffic(traffic, binder)
    relations["groups"] = _groups(funnel)
    order = ", ".join(f"{name} DESC" for name in dict.fromkeys((sort.value, *FIGURES)))
    relations["ordered"] = f"""
    SELECT *, row_number() OVER (PARTITION BY is_total ORDER BY {order}, value = '', value) AS rank
    FROM groups"""
    selected = "1"
    if page is not None:
        first = binder.bind("UInt64", page.offset + 1)
        last = binder.bind("UInt64", page.offset + page.size)
        selected = f"(is_total OR rank BETWEEN {first} AND {last})"
    tail = f"""
    SELECT is_total, value, groups, {", ".join(FIGURES)}
    FROM ordered WHERE {selected} ORDER BY is_total DESC, rank"""
    if funnel is not None:
        return compose(funnel, relations, tail)
    return Statement(with_relations(relations, tail), binder.values)


def traffic_trend(traffic: Traffic, starts_ms: Sequence[int], values: int) -> Statement:
    """Count traffic over time, for all values and for those with the most clicks.

    starts_ms: starts of the buckets in ascending order; the first is at or before the period's.
    values: maximum number of values. Columns: is_total, value, bucket (its start), most_clicks (of
    the value in the period), clicks, installs, opens. Buckets without traffic are omitted.
    """
    binder = Binder()
    sums = "sum(clicks) AS clicks, sum(installs) AS installs, sum(opens) AS opens"
    relations = {
        "traffic": _traffic(traffic, binder, starts_ms),
        "top_values": f"""
    SELECT value, sum(traffic.clicks) AS total FROM traffic GROUP BY value HAVING total > 0
    ORDER BY total DESC, value LIMIT {binder.bind("UInt64", values)}""",
    }
    tail = f"""
    SELECT * FROM (
        SELECT true AS is_total, '' AS value, bucket, 0 AS most_clicks, {sums}
        FROM traffic GROUP BY bucket
        UNION ALL
        SELECT false AS is_total, traffic.value AS value, bucket,
               any(top_values.total) AS most_clicks,
               {sums}
        FROM traffic INNER JOIN top_values ON traffic.value = top_values.value
        GROUP BY traffic.value, bucket)
    ORDER BY is_total DESC, most_clicks DESC, value, bucket"""
    return Statement(with_relations(relations, tail), binder.values)


def clicked_links(traffic: Traffic, limit: int) -> Statement:
    """Select the links that people clicked in the period, at most `limit`. Column: link_id."""
    binder = Binder()
    sql = f"""
    SELECT DISTINCT link_id FROM clicks
    WHERE {_scope(traffic, "clicked_at", binder)} AND NOT bot
    LIMIT {binder.bind("UInt64", limit)}"""
    return Statement(sql, binder.values)


def _traffic(traffic: Traffic, binder: Binder, starts_ms: Sequence[int] = ()) -> str:
    """Select value, clicks, installs and opens. Several rows may have the same value.

    starts_ms: starts of buckets, for the column `bucket`; empty for one row over the whole period.
    """
    column = f"toString({traffic.column})"
    clicked = column
    if traffic.slugs is not None:
        clicked = "''"
    if traffic.slugs:
        ids = binder.bind("Array(String)", list(traffic.slugs))
        slugs = binder.bind("Array(String)", list(traffic.slugs.values()))
        clicked = f"transform(link_id, {ids}, {slugs}, '')"
    keys = "value, bucket" if starts_ms else "value"
    clicked_in, occurred_in = (
        _bucket(time, starts_ms, binder) for time in ("clicked_at", "occurred_at")
    )
    return f"""
    SELECT {clicked} AS value,{clicked_in} count() AS clicks, 0 AS installs, 0 AS opens
    FROM clicks WHERE {_scope(traffic, "clicked_at", binder)} AND NOT bot
    GROUP BY {keys}
    UNION ALL
    SELECT {column} AS value,{occurred_in} 0 AS clicks, countIf(name = 'install') AS installs,
           countIf(name = 'open') AS opens
    FROM events
    WHERE {_scope(traffic, "occurred_at", binder)} AND name IN ('open', 'install')
        AND kind = 'event' AND link != ''
    GROUP BY {keys}"""


def _bucket(time: str, starts_ms: Sequence[int], binder: Binder) -> str:
    """Return the column `bucket` with a comma; empty without buckets."""
    if not starts_ms:
        return ""
    starts = binder.bind("Array(Int64)", list(starts_ms))
    return f" roundDown(toInt64(toUnixTimestamp64Milli({time})), {starts}) AS bucket,"


def _scope(traffic: Traffic, time: str, binder: Binder) -> str:
    condition = f"website_id IN {binder.bind('Array(String)', list(traffic.website_ids))}"
    if traffic.start_ms is None or traffic.end_ms is None:
        return condition
    start, end = (
        f"fromUnixTimestamp64Milli({binder.bind('Int64', at_ms)})"
        for at_ms in (traffic.start_ms, traffic.end_ms)
    )
    return f"{condition} AND {time} >= {start} AND {time} < {end}"


def _groups(funnel: Plan | None) -> str:
    """Sum up the figures of each value and of all values. Touch values are always strings."""
    none = ", ".join(f"0 AS {name}" for name in FIGURES[3:])
    parts = [f"SELECT value, clicks, installs, opens, {none} FROM traffic"]
    if funnel is not None:
        parts.append(f"""
        SELECT substring(texts[1], 2) AS value, 0 AS clicks, 0 AS installs, 0 AS opens,
               {figures.ENTERED} AS entered, {figures.completed_units(funnel)} AS completed,
               {figures.pending_units(funnel)} AS pending, {figures.early_units(funnel)} AS early,
               {figures.excluded_units(funnel)} AS excluded,
               {figures.reopened_units(funnel)} AS reopened,
               {figures.reopened_exclusions(funnel)} AS reopened_excluded
        FROM ranked WHERE NOT is_total""")
    sums = ", ".join(f"sum(parts.{name}) AS {name}" for name in FIGURES)
    return f"""
    SELECT parts.value AS value, grouping(parts.value) = 1 AS is_total,
           uniqExact(parts.value) AS groups, {sums}
    FROM ({" UNION ALL ".join(parts)}) AS parts
    GROUP BY GROUPING SETS ((parts.value), ())"""
