"""A funnel query whose definition, websites and data are known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.ad_hoc import NO_CHANGES, AdHocChanges
from penstock.funnels.definitions.model import Definition
from penstock.funnels.internal_traffic.model import InternalTraffic
from penstock.funnels.queries.versions import DataVersion
from penstock.funnels.segments.schema import SavedSegmentRecord
from penstock.funnels.statements.counted_units import CountedUnits
from penstock.funnels.statements.query import DataProfile, QueryParams


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The input for the statements and the head of a response.

    funnel_id, revision: None for a draft. website_id: the website that the caller selected; None
    for all websites. is_fresh: whether all events acknowledged before the query can be read.
    definition: the definition to evaluate. saved_definition: the same without ad hoc changes, with
    internal traffic. ad_hoc: those changes. segment, internal_traffic: see `ChangedDefinition`.
    cohort_rules: hashes of the rules of the saved cohorts that the query reads; empty for lists.
    only_cached: read rows only from the cache. names_by_trait: whether the caller may see the trait
    that names people.
    """

    workspace_id: WorkspaceId
    funnel_id: str | None
    revision: int | None
    definition: Definition
    saved_definition: Definition
    website_id: str | None
    is_fresh: bool
    params: QueryParams
    profile: DataProfile
    version: DataVersion
    ad_hoc: AdHocChanges = NO_CHANGES
    segment: SavedSegmentRecord | None = None
    internal_traffic: InternalTraffic | None = None
    cohort_rules: tuple[str, ...] = ()
    only_cached: bool = False
    names_by_trait: bool = True

    @property
    def rules(self) -> str:
        """A hash of the definition, with its ad hoc changes and the rules of its cohorts."""
        text = repr(self.definition) + "".join(self.cohort_rules)
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def question(self) -> str:
        """A hash of the funnel, its revision and what the query selects of it, without breakdown.

        It can change with the version of Penstock.
        """
        changes = replace(self.ad_hoc, breakdown=None, breakdown_at=None)
        params = self.params
        selected = (self.website_id, params.start_ms, params.end_ms, sorted(params.cohort.items()))
        parts = (self.funnel_id, self.revision, *selected, changes)
        return sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def counted(
        self, profile: DataProfile, *, edges_ms: Sequence[int] | None = None
    ) -> CountedUnits:
        """Return the counted units, for the statement over a data profile. edges_ms: see `Plan`."""
        return CountedUnits(self.definition, self.params, profile, edges_ms=edges_ms)

    def with_params(self, **changes: Any) -> "QueryContext":
        """Return the same query with other parameters of its statements, over the same data."""
        return replace(self, params=replace(self.params, **changes))
