"""Wire types for the export of a person's data."""

from typing import Any

from penstock.activity.schema import Text
from penstock.http.schema import Query, Record


class PersonQuery(Query):
    """Query parameters that select a person, by visitor ID or by user ID."""

    website_id: str
    """A website that the person used. Includes websites that share visitors with it."""
    visitor_id: Text | None = None
    """Any ID of the visitor."""
    user_id: Text | None = None
    """The person's user ID."""


class PersonalDataLine(Record):
    """A line of the file: a type and its data."""

    type: str
    data: dict[str, Any]
