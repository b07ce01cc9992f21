"""Query parameters of the pages about links."""

from typing import Annotated

from pydantic import Field

from penstock.base.paging import MAX_PAGE_SIZE
from penstock.http.schema import PageQuery, Query
from penstock.web.pages.schema import PeriodPageQuery


class NewLinkQuery(Query):
    """Initial values of a new link. from_: the ID of a link to duplicate."""

    from_: Annotated[str | None, Field(alias="from")] = None
    website_id: str | None = None


class LinkPageQuery(PeriodPageQuery, PageQuery):
    """The period of the statistics, and the page of the matches."""

    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = 10
