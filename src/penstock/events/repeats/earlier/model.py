"""Plain types for keys that earlier versions stored."""

from typing import NamedTuple

from penstock.events.repeats.model import DedupeRecord


class EarlierKey(NamedTuple):
    """A row of the table of dedupe keys. scope_tag: tag of the visitor's identity scope."""

    id: int
    dedupe_key: bytes
    scope_tag: int
    record: DedupeRecord
