"""Wire types for saved mappings."""

from penstock.events.imports.formats.schema import CompleteMapping, ImportMapping
from penstock.http.schema import Input, Iso, Name, Omittable, Record


class SavedMappingIn(Input):
    """A new saved mapping."""

    name: Name
    mapping: CompleteMapping


class SavedMappingChange(Input):
    """Changes to a saved mapping. Fields that are left out keep their values."""

    name: Omittable[Name] = None
    mapping: Omittable[CompleteMapping] = None
    """A new mapping, which replaces the old one."""


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
