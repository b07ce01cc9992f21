"""Plain types for saved cohorts. No I/O."""

from enum import StrEnum
from typing import NamedTuple

MAX_VISITORS = 100_000
"""Maximum number of visitors of a saved cohort."""
MAX_COHORT_BYTES = 8 * 1024 * 1024
"""Maximum size of the body of a new cohort, which may name its visitors."""


class CohortKind(StrEnum):
    """How the visitors of a saved cohort are determined.

    LIST: the visitors at the time of saving. RULE: the visitors at the time of each use.
    """

    LIST = "list"
    RULE = "rule"


class Member(NamedTuple):
    """A visitor of a list. key: its key in the event store."""

    scope_id: str
    visitor_id: str
    key: int


class ListedVisitor(NamedTuple):
    """A canonical visitor of a saved cohort. user_id: None if no user is linked."""

    scope_id: str
    visitor_id: str
    user_id: str | None
