"""Step 1: the definition that a query counts, with goals replaced by their matches."""

from dataclasses import dataclass

from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.ad_hoc import NO_CHANGES, AdHocChanges
from penstock.funnels.definitions.model import Definition
from penstock.funnels.definitions.schema import SavedDefinition
from penstock.funnels.saved.service import FunnelService


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

    definition: with the ad hoc changes of the query. saved_definition: without them. funnel_id,
    revision: None for a draft.
    """

    definition: Definition
    saved_definition: Definition
    funnel_id: str | None = None
    revision: int | None = None


def resolve_definition(
    funnels: FunnelService,
    workspace_id: WorkspaceId,
    source: DefinitionSource,
    changes: AdHocChanges = NO_CHANGES,
) -> ResolvedFunnel:
    """Return the definition to evaluate.

    Raises NotFound for an unknown funnel, Malformed for an unknown revision or for changes that do
    not fit the funnel, and Conflict under the same conditions as `FunnelService.resolve`.
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
    saved = definition = funnels.resolve(workspace_id, stored)
    if changes != NO_CHANGES:
        definition = funnels.change(workspace_id, stored, saved, changes)
    return ResolvedFunnel(definition, saved, funnel_id, revision)
