"""Step 1: the definition that a query counts, with goals replaced by their matches."""

from dataclasses import dataclass

from penstock.base.ids import WorkspaceId
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
    """A definition ready to be evaluated. funnel_id, revision: None for a draft."""

    definition: Definition
    funnel_id: str | None = None
    revision: int | None = None


def resolve_definition(
    funnels: FunnelService, workspace_id: WorkspaceId, source: DefinitionSource
) -> ResolvedFunnel:
    """Return the definition to evaluate.

    Raises NotFound for an unknown funnel, Malformed for an unknown revision, and Conflict under
    the same conditions as `FunnelService.resolve`.
    """
    match source:
        case SavedFunnel(funnel_id, revision):
            number, definition = funnels.definition_at(workspace_id, funnel_id, revision)
            return ResolvedFunnel(funnels.resolve(workspace_id, definition), funnel_id, number)
        case ReadFunnel(funnel_id, number, definition):
            return ResolvedFunnel(funnels.resolve(workspace_id, definition), funnel_id, number)
        case DraftFunnel(definition):
            return ResolvedFunnel(funnels.resolve(workspace_id, definition))
