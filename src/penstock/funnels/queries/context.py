"""A funnel query whose definition, websites and data are known."""

from dataclasses import dataclass

from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.ad_hoc import NO_CHANGES, AdHocChanges
from penstock.funnels.definitions.model import Definition
from penstock.funnels.internal_traffic.model import InternalTraffic
from penstock.funnels.queries.versions import DataVersion
from penstock.funnels.segments.schema import SavedSegmentRecord
from penstock.funnels.statements.query import DataProfile, QueryParams


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The input for the statements and the head of a response.

    funnel_id, revision: None for a draft. website_id: the website that the caller selected; None
    for all websites. is_fresh: whether all events acknowledged before the query can be read.
    definition: the definition to evaluate. saved_definition: the same without ad hoc changes, with
    internal traffic. ad_hoc: those changes. segment, internal_traffic: see `ChangedDefinition`.
    only_cached: read rows only from the cache.
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
    only_cached: bool = False
