"""Step 1: the definition that a query counts, with goals replaced by their matches."""

from dataclasses import dataclass

from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.ad_hoc import NO_CHANGES, AdHocChanges
from penstock.funnels.definitions.model import Definition
from penstock.funnels.definitions.schema import SavedDefinition
from penstock.funnels.internal_traffic.model import InternalTraffic
from penstock.funnels.saved.service import FunnelService
from penstock.funnels.segments.schema import SavedSegmentRecord


@dataclass(frozen=True, slots=True)
class SavedFunnel:
    """A saved funnel. revision: None for the current revision."""

    funnel_id: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class DraftFunnel:
    """An unsaved definition."""

    definition: SavedDefinition


@dataclass(frozen=True, slots=True)
class ReadFunnel:
    """A saved funnel that the caller has already read. definition: its definition at `revision`."""

    funnel_id: str
    revision: int
    definition: SavedDefinition


DefinitionSource = SavedFunnel | DraftFunnel | ReadFunnel


@dataclass(frozen=True, slots=True)
class ResolvedFunnel:
    """A definition ready to be evaluated.

    definition: with the ad hoc changes of the query, and without internal traffic unless the query
    includes it. saved_definition: as saved. funnel_id, revision: None for a draft. segment,
    internal_traffic: see `ChangedDefinition`.
    """

    definition: Definition
    saved_definition: Definition
    funnel_id: str | None
    revision: int | None
    segment: SavedSegmentRecord | None
    internal_traffic: InternalTraffic | None


def resolve_definition(
    funnels: FunnelService,
    workspace_id: WorkspaceId,
    source: DefinitionSource,
    changes: AdHocChanges = NO_CHANGES,
) -> ResolvedFunnel:
    """Return the definition to evaluate.

    Raises NotFound for an unknown funnel, Malformed for an unknown revision, and the same errors as
    `FunnelService.resolve` and `FunnelService.change`.
    """
    funnel_id: str | None = None
    revision: int | None = None
    match source:
        case SavedFunnel(funnel_id, number):
            revision, stored = funnels.definition_at(workspace_id, funnel_id, number)
        case ReadFunnel(funnel_id, revision, stored):
            pass
        case DraftFunnel(stored):
            pass
    saved = funnels.resolve(workspace_id, stored)
    changed = funnels.change(workspace_id, stored, saved, changes)
    return ResolvedFunnel(
        changed.definition, saved, funnel_id, revision, changed.segment, changed.internal_traffic
    )
