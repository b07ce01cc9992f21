"""Query parameters of the pages about live events."""

from typing import Annotated

from pydantic import Field

from penstock.http.schema import Query


class RejectedQuery(Query):
    """Query parameters for rejected events. after: number of the last rejected event on the
    page.
    """

    website_id: str | None = None
    after: Annotated[int, Field(ge=0)] = 0
