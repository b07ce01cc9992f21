"""Query parameters of the pages about links."""

from typing import Annotated, Literal

from pydantic import Field

from penstock.base.paging import MAX_PAGE_SIZE
from penstock.http.period import ReportPeriod
from penstock.http.schema import PageQuery, Query
from penstock.links.management.schema import LinkQuery


class NewLinkQuery(Query):
    """Initial values of a new link. from_: the ID of a link to duplicate."""

    from_: Annotated[str | None, Field(alias="from")] = None
    website_id: str | None = None


class LinksPageQuery(LinkQuery):
    """The state of the list. days: the last days that its numbers cover; all time by default."""

    sort: Literal["newest", "name", "clicks", "installs"] = "newest"
    days: Literal["7", "30", "90"] | None = None


class LinkPageQuery(ReportPeriod, PageQuery):
    """The period of the statistics, and the page of the matches."""

    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 10
