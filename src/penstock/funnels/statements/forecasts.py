"""The statement that reads the courses of units, of which forecasts are made."""

from penstock.funnels.statements.cohorts import in_cohort_filter, texts_join
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.query import Statement


def courses(counted: CountedUnits, limit: int) -> Statement:
    """Select the courses of units, as lists with an element per unit and one row per cohort.

    limit: maximum number of units. If there are more, a random part of them is read, the same at
    any time.

    Columns: units (keys), entries (times in milliseconds), done_2 and so on (times of later steps,
    0 for none), exclusions (milliseconds after the entry, -1 for none), texts (tagged entry
    values), selected (whether the cohort filter selects the cohort) and last_place (that of the
    last unit in a random order; of a part of all units, its share times 2^64).
    """
    plan = counted.plan
    later = range(2, len(plan.steps) + 1)
    is_cut = plan.profile.build is not None or plan.profile.events > limit
    order = f"ORDER BY place LIMIT {plan.binder.bind('UInt64', limit)}" if is_cut else ""
    columns = ["groupArray(unit) AS units", "groupArray(entry_ts) AS entries"]
    columns += [f"groupArray(done[{step}]) AS done_{step}" for step in later]
    columns += ["groupArray(excluded_after) AS exclusions", "max(place) AS last_place"]
    grouped = f"""
        SELECT keys, {", ".join(columns)}
        FROM (SELECT *, intHash64(unit) AS place FROM counted {order}) GROUP BY keys"""
    texts, join = texts_join(plan, "grouped") if plan.breadth else ("CAST([], 'Array(String)')", "")
    return counted.statement(f"""
        SELECT grouped.*, {texts} AS texts, {in_cohort_filter(plan)} AS selected
        FROM ({grouped}) AS grouped {join}""")
