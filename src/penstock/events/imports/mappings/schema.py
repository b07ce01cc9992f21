"""Wire types for saved mappings."""

from typing import Annotated

from pydantic import Field, field_validator

from penstock.events.imports.formats.schema import CompleteMapping, ImportMapping
from penstock.http.schema import OMITTABLE, Input, Iso, Name, Record, RuleBroken


class SavedMappingIn(Input):
    """A new saved mapping."""

    name: Name
    mapping: CompleteMapping


class SavedMappingChange(Input):
    """Changes to a saved mapping. Fields that are left out keep their values."""

    name: Annotated[Name | None, OMITTABLE] = None
    mapping: Annotated[
        CompleteMapping | None,
        Field(description="A new mapping, which replaces the old one."),
        OMITTABLE,
    ] = None

    @field_validator("name", "mapping")
    @classmethod
    def _reject_null(cls, value: object) -> object:
        if value is None:
            raise RuleBroken("not_null", "Must not be null. Leave the field out to keep its value.")
        return value


class SavedMappingRecord(Record):
    """A saved mapping. Imports refer to it by its ID.

    revision: counts from 1 and increases with each change.
    """

    id: str
    name: str
    mapping: ImportMapping
    revision: int
    created_at: Iso
    updated_at: Iso
