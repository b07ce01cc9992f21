"""Texts about people in the summaries of dry runs, for deletions and exports of personal data."""

from collections.abc import Callable, Collection, Iterator

from msgspec import json
from sqlalchemy import Connection

from penstock.base.ids import ImportId
from penstock.events.imports import store
from penstock.events.imports.dry_runs.schema import ImportSummaryRecord
from penstock.events.redaction import redact
from penstock.metadb.person import Person, StoredRecord
from penstock.warehouse.work import check_limits


def summaries_with_texts(
    db: Connection, website_ids: Collection[str], contains: Callable[[str], bool]
) -> set[ImportId]:
    """Return the imports whose summary contains one of the IDs.

    contains: the result of `store.naming`.
    """
    return {
        import_id
        for import_id, summary in _summaries(db, website_ids)
        if summary.without_texts(_names_one(contains))[1]
    }


def remove_summary_texts(
    db: Connection,
    website_ids: Collection[str],
    contains: Callable[[str], bool],
    earlier: Collection[ImportId],
) -> int:
    """Remove texts that contain one of the IDs from summaries. Returns the number of removed texts.

    earlier: imports that `summaries_with_texts` returned before this transaction. Besides these,
    only the summaries of unfinished imports are searched, because other writes wait.
    """
    number = 0
    for import_id, summary in _summaries(db, website_ids, earlier):
        remaining, texts = summary.without_texts(_names_one(contains))
        if texts:
            store.save_summary(db, import_id, remaining.model_dump(mode="json"))
            number += len(texts)
    return number


def summary_texts(db: Connection, person: Person) -> Iterator[StoredRecord]:
    """Find texts of summaries that contain one of a person's IDs."""
    contains = _names_one(store.naming(person.sent_ids))
    for import_id, summary in _summaries(db, person.website_ids):
        for text in summary.without_texts(contains)[1]:
            yield "dryRunText", {"importId": import_id, "text": text}


def _summaries(
    db: Connection, website_ids: Collection[str], earlier: Collection[ImportId] | None = None
) -> Iterator[tuple[ImportId, ImportSummaryRecord]]:
    for import_id, summary in store.summaries(db, website_ids, earlier):
        check_limits()
        yield import_id, ImportSummaryRecord.model_validate(summary)


def _names_one(contains: Callable[[str], bool]) -> Callable[[str], bool]:
    """Return a function that tests a text that is not redacted, or an excerpt."""

    def names_one(text: str) -> bool:
        return contains(text) or contains(json.encode(text).decode()) or contains(redact(text))

    return names_one
