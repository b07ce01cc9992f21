"""Conditions on the visitors of saved cohorts."""

from collections.abc import Sequence

from penstock.base.chunks import chunks
from penstock.funnels.definitions.model import CohortFilter
from penstock.funnels.statements.query import Plan
from penstock.funnels.statements.sources import visitor_key

_KEYS_PER_TEXT = 5_000
"""A server accepts parameters of up to 131,072 bytes, and a key has up to 20 digits."""


def member_texts(keys: Sequence[int]) -> tuple[str, ...]:
    """Return the keys of visitors as texts, separated by commas.

    The engine reads 100,000 numbers from texts several times faster than from an array.
    """
    return tuple(",".join(map(str, share)) for share in chunks(keys, _KEYS_PER_TEXT))


def is_in_cohort(plan: Plan, item: CohortFilter) -> str:
    """Whether the canonical visitor of an event is in a saved cohort, or not.

    A cohort has the keys that its visitors had when it was saved. After a merge, they stand for the
    canonical visitor.
    """
    texts = plan.binder.bind("Array(String)", list(plan.params.members[item.cohort_id]))
    members = f"""
        SELECT toUInt64(arrayJoin(splitByChar(',', arrayJoin({texts})))) AS visitor_key"""
    if plan.profile.has_aliases:
        scopes = plan.binder.bind("Array(String)", list(plan.params.scope_ids))
        members = f"""
        SELECT if(aliases.canonical_key = 0, saved.visitor_key, aliases.canonical_key)
        FROM ({members}) AS saved LEFT ANY JOIN (
            SELECT visitor_key, argMax(canonical_key, version) AS canonical_key
            FROM visitor_aliases WHERE scope_id IN {scopes} GROUP BY visitor_key
        ) AS aliases ON saved.visitor_key = aliases.visitor_key"""
    return f"{visitor_key(plan)} {'IN' if item.is_member else 'NOT IN'} ({members})"
