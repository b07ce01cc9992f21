"""Events of payment providers: whether they take part in an attempt.

Source: funnel semantics, "Units"; interface, rule 18.
"""

from penstock.funnels.statements.query import Plan
from penstock.funnels.statements.sources import event_scope, keyed_events, visitor_key
from penstock.funnels.statements.unit_keys import unit_key

TAKES_PART = "(NOT provider OR verified AND (empty(visitors) OR has(visitors, visitor)))"
"""Whether an event takes part in its attempt. It reads `visitors` from `attempt_visitors`."""


def attempt_visitors(plan: Plan, attempts: str) -> str:
    """Return the visitors of the non-provider events of attempts. Columns: unit, visitors.

    attempts: a query that selects the units of the attempts. An attempt with only provider events
    has no row.
    """
    return f"""
    SELECT {unit_key(plan)} AS unit, groupUniqArray({visitor_key(plan)}) AS visitors
    FROM {keyed_events(plan)}
    WHERE {event_scope(plan)} AND events.source != 'provider' AND unit IN ({attempts})
    GROUP BY unit"""


def checked_events(plan: Plan, events: str) -> dict[str, str]:
    """Return the relation `checked`, and `attempt_visitors`, which it reads.

    `checked` has the rows of `events`, and whether each is a provider's event that does not take
    part in its attempt (`left_out`). events: the name of a relation with the columns of `matched`.
    """
    attempts = f"SELECT unit FROM {events} WHERE provider AND unit != 0"
    return {
        "attempt_visitors": attempt_visitors(plan, attempts),
        "checked": f"""
    SELECT {events}.*, NOT {TAKES_PART} AS left_out
    FROM {events} LEFT ANY JOIN attempt_visitors ON {events}.unit = attempt_visitors.unit""",
    }
