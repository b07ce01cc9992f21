"""The subjects of a saved funnel: its current definition over one website, or over all."""

from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Conflict, Malformed, NotFound
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.funnels.outcomes.model import Subject
from penstock.funnels.queries.resolve import SavedFunnel, resolve_definition
from penstock.funnels.queries.scope import authorise_websites
from penstock.funnels.saved.service import FunnelService


class SubjectReader:
    """Reads the subjects of saved funnels. Methods block."""

    def __init__(self, websites: WebsiteService, funnels: FunnelService) -> None:
        self._websites, self._funnels = websites, funnels

    def current(self, workspace_id: WorkspaceId, funnel_id: str, outcome: str) -> Subject | None:
        """Return the subject with this outcome, over all websites or over one website.

        Returns None if the funnel was deleted, or if its current revision has no such subject.
        """
        try:
            _, saved = self._funnels.definition_at(workspace_id, funnel_id, None)
            definition = self._funnels.resolve(workspace_id, saved)
        except (NotFound, Malformed, Conflict):
            return None
        websites = self._websites.select_websites(workspace_id, None)
        ids = tuple(WebsiteId(website.id) for website in websites)
        subjects = (Subject(definition, scope) for scope in (ids, *((each,) for each in ids)))
        return next((subject for subject in subjects if subject.outcome == outcome), None)

    def subject(self, workspace_id: WorkspaceId, funnel_id: str, website_id: str | None) -> Subject:
        """Return the subject for the current revision over one website, or over all websites.

        Raises NotFound for an unknown funnel, Unauthorized for a website of another workspace, and
        Conflict under the same conditions as `FunnelService.resolve`.
        """
        source = SavedFunnel(funnel_id, None)
        definition = resolve_definition(self._funnels, workspace_id, source).saved_definition
        scope = authorise_websites(self._websites, workspace_id, website_id)
        return Subject(definition, scope.website_ids)
