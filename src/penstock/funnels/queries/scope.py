"""Step 2: the websites whose events a query may read."""

from dataclasses import dataclass

from penstock.accounts.websites.service import WebsiteService
from penstock.base.ids import ScopeId, WebsiteId, WorkspaceId


@dataclass(frozen=True, slots=True)
class WebsiteScope:
    """Websites of one workspace, and the identity scopes of their visitors without repeats."""

    website_ids: tuple[WebsiteId, ...]
    scope_ids: tuple[ScopeId, ...]


def authorise_websites(
    websites: WebsiteService, workspace_id: WorkspaceId, website_id: str | None
) -> WebsiteScope:
    """Return the scope of one website, or of all websites of the workspace if the ID is None.

    Raises Unauthorized for a website of another workspace.
    """
    selected = websites.select_websites(workspace_id, website_id)
    return WebsiteScope(
        tuple(WebsiteId(website.id) for website in selected),
        tuple({website.scope_id: None for website in selected}),
    )
