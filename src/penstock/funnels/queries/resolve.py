"""Step 1: which definition a query is about, with its goals replaced by their matches."""

from dataclasses import dataclass

from penstock.base.ids import WorkspaceId
from penstock.funnels.definitions.model import Definition
from penstock.funnels.definitions.schema import SavedDefinition
from penstock.funnels.saved.service import FunnelService


@dataclass(frozen=True, slots=True)
class SavedFunnel:
    """A funnel by its ID. revision: None for the current one."""

    funnel_id: str
    revision: int | None


@dataclass(frozen=True, slots=True)
class DraftFunnel:
    """A definition that is not saved."""

    definition: SavedDefinition


@dataclass(frozen=True, slots=True)
class ReadFunnel:
    """A saved funnel that was read already. definition: of the revision."""

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
    """NotFound (funnel), Malformed (revision), Conflict (as of `FunnelService.resolve`)."""
    match source:
        case SavedFunnel(funnel_id, revision):
            number, definition = funnels.definition_at(workspace_id, funnel_id, revision)
            return ResolvedFunnel(funnels.resolve(workspace_id, definition), funnel_id, number)
        case ReadFunnel(funnel_id, number, definition):
            return ResolvedFunnel(funnels.resolve(workspace_id, definition), funnel_id, number)
        case DraftFunnel(definition):
            return ResolvedFunnel(funnels.resolve(workspace_id, definition))
