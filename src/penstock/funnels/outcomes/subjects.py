"""The subjects of a saved funnel: its current definition over one website, or over all."""

from collections.abc import Sequence

from penstock.accounts.websites.service import WebsiteService
from penstock.base.errors import Conflict, Malformed, NotFound
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.funnels.outcomes.model import Mark, Subject
from penstock.funnels.queries.resolve import SavedFunnel, resolve_definition
from penstock.funnels.queries.scope import authorise_websites
from penstock.funnels.saved.service import FunnelService


class SubjectReader:
    """Reads the subjects of saved funnels. Methods block."""

    def __init__(self, websites: WebsiteService, funnels: FunnelService) -> None:
        self._websites, self._funnels = websites, funnels

    def subjects(self, workspace_id: WorkspaceId, funnel_id: str) -> Sequence[Subject]:
        """Return subjects of the current revision: over all websites, and over each website.

        Returns no subjects for a deleted funnel.
        """
        try:
            _, saved = self._funnels.definition_at(workspace_id, funnel_id, None)
            definition = self._funnels.resolve(workspace_id, saved)
        except (NotFound, Malformed, Conflict):
            return ()
        websites = self._websites.select_websites(workspace_id, None)
        ids = tuple(WebsiteId(website.id) for website in websites)
        return [Subject(definition, scope) for scope in (ids, *((website,) for website in ids))]

    def subject(self, workspace_id: WorkspaceId, funnel_id: str, website_id: str | None) -> Subject:
        """Return the subject for the current revision over one website, or over all websites.

        Raises NotFound for an unknown funnel, Unauthorized for a website of another workspace, and
        Conflict under the same conditions as `FunnelService.resolve`.
        """
        source = SavedFunnel(funnel_id, None)
        definition = resolve_definition(self._funnels, workspace_id, source).saved_definition
        scope = authorise_websites(self._websites, workspace_id, website_id)
        return Subject(definition, scope.website_ids)

    def is_current(self, subject: Subject, workspace_id: WorkspaceId, funnel_id: str) -> bool:
        """Whether the subject belongs to the funnel's current revision."""
        current = self.subjects(workspace_id, funnel_id)
        return any(each.outcome == subject.outcome for each in current)

    def subject_of(self, mark: Mark) -> Subject | None:
        """Return the subject of a mark; None if the funnel has changed since."""
        current = self.subjects(mark.workspace_id, mark.funnel_id)
        return next((each for each in current if each.outcome == mark.outcome), None)
