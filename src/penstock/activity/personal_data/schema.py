"""Wire types for the export of a person's data."""

from typing import Annotated, Any

from pydantic import Field

from penstock.activity.schema import Text
from penstock.http.schema import Query, Record


class PersonQuery(Query):
    """Query parameters that select a person, by visitor ID or by user ID."""

    website_id: Annotated[
        str,
        Field(
            description="A website that the person used. Includes websites that share "
            "visitors with it."
        ),
    ]
    visitor_id: Annotated[Text | None, Field(description="Any ID of the visitor.")] = None
    user_id: Annotated[Text | None, Field(description="The person's user ID.")] = None


class PersonalDataLine(Record):
    """A line of the file: a type and its data."""

    type: str
    data: dict[str, Any]
