"""SQL for imports and their rejected lines."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    Connection,
    Text,
    bindparam,
    cast,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    text,
    update,
)

from penstock.base.errors import Fault
from penstock.base.gaps import Gap
from penstock.base.ids import ImportId, WorkspaceId
from penstock.base.paging import Listing, Page
from penstock.base.text_search import containing_any
from penstock.events.imports.model import (
    MAX_STORED_REJECTS,
    STARTED,
    UNFINISHED,
    DuplicateLines,
    Excerpt,
    ExcerptSearch,
    ImportJob,
    ImportState,
    Reject,
    UnfinishedImport,
)
from penstock.events.redaction import redact
from penstock.metadb.pages import listing_of, newest_first
from penstock.metadb.rows import record_of, row_values
from penstock.metadb.tables import (
    deletions,
    import_duplicates,
    import_rejects,
    import_summaries,
    imports,
    websites,
    workspaces,
)
from penstock.warehouse.work import check_limits

_undone = imports.alias("undone")
_COLUMNS = (
    *imports.c,
    select(func.coalesce(func.sum(import_duplicates.c.lines), 0))
    .join_from(import_duplicates, _undone, _undone.c.id == import_duplicates.c.import_id)
    .where(import_duplicates.c.other_id == imports.c.id, _undone.c.state == ImportState.UNDONE)
    .correlate(imports)
    .scalar_subquery()
    .label("missing_lines"),
    select(deletions.c.id)
    .where(deletions.c.import_id == imports.c.id)
    .correlate(imports)
    .scalar_subquery()
    .label("undo_id"),
)
"""Columns of an import, with the values that follow from other tables."""
_ADD_DUPLICATES = text(
    "INSERT INTO import_duplicates (import_id, other_id, lines) "
    "VALUES (:import_id, :other_id, :lines) ON CONFLICT (import_id, other_id) "
    "DO UPDATE SET lines = import_duplicates.lines + excluded.lines"
)
_MAX_EXCERPTS = 1_000
"""Maximum number of rejected lines per file that are stored with their text."""
_WITH_EVENTS = (
    select(*_COLUMNS)
    .where(
        imports.c.workspace_id == bindparam("workspace"),
        imports.c.website_id.in_(bindparam("websites", expanding=True)),
        or_(imports.c.accepted + imports.c.duplicates > 0, imports.c.state.in_(STARTED)),
        imports.c.state != ImportState.UNDONE,
    )
    .order_by(imports.c.created_at)
)
_HAS_TEXT = or_(
    import_rejects.c.line_text.is_not(None), cast(import_rejects.c.errors, Text).startswith("{")
)
"""SQL condition: the text of a rejected line is stored. Earlier versions stored it in `errors`."""
_LISTED = [null().label("mapping") if each is imports.c.mapping else each for each in _COLUMNS]
"""Columns of an import, without the content of its mapping."""


def add(connection: Connection, job: ImportJob) -> None:
    connection.execute(insert(imports).values(_values(job)))


def _values(job: ImportJob) -> dict[str, Any]:
    mapping = None if job.mapping is None else job.mapping.model_dump(mode="json")
    return row_values(job, imports) | {"mapping": null() if mapping is None else mapping}


def save(connection: Connection, job: ImportJob, rejects: Sequence[Reject] = ()) -> None:
    """Save a job's progress and newly rejected lines. `job.rejected` must already include these
    lines.
    """
    connection.execute(update(imports).where(imports.c.id == job.id).values(_values(job)))
    if rejects:
        first_number = job.rejected - len(rejects)
        rows = [
            {
                "import_id": job.id,
                "line": reject.line,
                "errors": [asdict(fault) for fault in reject.faults],
                "line_text": reject.excerpt if number < _MAX_EXCERPTS else None,
            }
            for number, reject in enumerate(rejects, first_number)
            if number < MAX_STORED_REJECTS
        ]
        if rows:
            connection.execute(insert(import_rejects), rows)


def add_duplicates(
    connection: Connection, import_id: ImportId, lines: Mapping[ImportId, int]
) -> None:
    """Count lines that an import did not store. lines: by the import that stored their events."""
    rows = [
        {"import_id": first_id, "other_id": import_id, "lines": number}
        for first_id, number in sorted(lines.items())
    ]
    if rows:
        connection.execute(_ADD_DUPLICATES, rows)


def duplicates(connection: Connection, import_id: ImportId) -> list[DuplicateLines]:
    """Return the lines of other imports that were dropped as duplicates of this one, most lines
    first.

    Imports that were undone are left out.
    """
    c = import_duplicates.c
    rows = connection.execute(
        select(c.other_id, imports.c.file_name, c.lines)
        .join_from(import_duplicates, imports, c.other_id == imports.c.id)
        .where(c.import_id == import_id, imports.c.state != ImportState.UNDONE)
        .order_by(c.lines.desc(), c.other_id)
    )
    return [DuplicateLines(*row) for row in rows]


def begin_undo(connection: Connection, job: ImportJob, now_ms: int) -> None:
    """Mark an import as undone. The gaps of imports that lack its lines are no longer dismissed."""
    remove_summary(connection, job.id)
    change(connection, job, now_ms, state=ImportState.UNDONE)
    others = [each.import_id for each in duplicates(connection, job.id)]
    connection.execute(
        update(imports)
        .where(imports.c.id.in_(others))
        .values(gap_dismissed_at=None, gap_dismissed_by=None)
    )


def change(connection: Connection, job: ImportJob, now_ms: int, **changes: Any) -> ImportJob:
    """Save changes to fields of an import, and return it."""
    job = replace(job, updated_at_ms=now_ms, **changes)
    save(connection, job)
    return job


def _faults_and_excerpt(errors: Any, line_text: str | None) -> tuple[Any, str | None]:
    """Return the faults and text of a rejected line. Earlier versions stored both in `errors`."""
    return (
        (errors, line_text) if isinstance(errors, list) else (errors["faults"], errors["excerpt"])
    )


def _reject(line: int, errors: Any, line_text: str | None) -> Reject:
    faults, excerpt = _faults_and_excerpt(errors, line_text)
    return Reject(line, [Fault(**fault) for fault in faults], excerpt=excerpt)


def find(
    connection: Connection, workspace_id: WorkspaceId, import_id: str, *, lock: bool = False
) -> ImportJob | None:
    """Find an import. lock: whether to lock it until the transaction ends."""
    c = imports.c
    query = select(*_COLUMNS).where(c.id == import_id, c.workspace_id == workspace_id)
    row = connection.execute(query.with_for_update() if lock else query).first()
    return None if row is None else record_of(row, ImportJob)


def page(
    connection: Connection, workspace_id: WorkspaceId, website_id: str | None, page: Page
) -> Listing[ImportJob]:
    """List imports, newest first, without their mappings."""
    selected = select(*_LISTED).where(imports.c.workspace_id == workspace_id)
    if website_id is not None:
        selected = selected.where(imports.c.website_id == website_id)
    newest = selected.order_by(*newest_first(imports))
    return listing_of(connection, newest, page, lambda row: record_of(row, ImportJob))


def rejects(connection: Connection, job: ImportJob, page: Page) -> Listing[Reject]:
    """List an import's first rejected lines, in file order."""
    c = import_rejects.c
    rows = connection.execute(
        select(c.line, c.errors, c.line_text)
        .where(c.import_id == job.id)
        .order_by(c.line)
        .offset(page.offset)
        .limit(page.size)
    )
    return Listing([_reject(*row) for row in rows], page, min(job.rejected, MAX_STORED_REJECTS))


def naming(sent_ids: Collection[str]) -> Callable[[str], bool]:
    """Return a function that tests whether an excerpt contains one of the IDs.

    The IDs are compared in the form that they have in excerpts: as JSON text, and possibly cut
    short.
    """
    return containing_any([redact(sent_id)[1:-1].removesuffix("…") for sent_id in sent_ids])


def search_excerpts(
    connection: Connection,
    website_ids: Collection[str],
    contains: Callable[[str], bool],
    after: Mapping[ImportId, int] = MappingProxyType({}),
) -> ExcerptSearch:
    """Search the excerpts of these websites' rejected lines.

    contains: the result of `naming`. after: last line to skip, by import.
    """
    # Read the progress first. Lines that are rejected in the meantime are then searched twice
    # rather than not at all.
    c = imports.c
    searched = select(c.id, c.lines_read).where(c.website_id.in_(website_ids), c.rejected > 0)
    lines_read = {ImportId(import_id): number for import_id, number in connection.execute(searched)}
    excerpts = [
        excerpt
        for import_id, number in lines_read.items()
        if number > after.get(import_id, 0)
        for excerpt in _excerpts(connection, import_id, after.get(import_id, 0))
        if contains(excerpt.text)
    ]
    return ExcerptSearch(contains, excerpts, lines_read)


def _excerpts(connection: Connection, import_id: ImportId, after: int) -> Iterator[Excerpt]:
    """Yield the excerpts of an import's rejected lines after the given line."""
    c = import_rejects.c
    rows = connection.execute(
        select(c.line, c.errors, c.line_text).where(
            c.import_id == import_id, c.line > after, _HAS_TEXT
        )
    )
    for line, errors, line_text in rows:
        check_limits()
        faults, text = _faults_and_excerpt(errors, line_text)
        if text is not None:
            yield Excerpt(import_id, line, faults, text)


def remove_excerpts(
    connection: Connection,
    website_ids: Collection[str],
    earlier: ExcerptSearch,
) -> int:
    """Remove excerpts that a search found, and matching newer excerpts. Returns the number removed.

    earlier: the search, made before this transaction. This function searches only newer lines,
    because other writes wait for this transaction.
    """
    newer = search_excerpts(connection, website_ids, earlier.contains, earlier.lines_read)
    excerpts = [*earlier.excerpts, *newer.excerpts]
    c = import_rejects.c
    return sum(
        connection.execute(
            update(import_rejects)
            .where(c.import_id == excerpt.import_id, c.line == excerpt.line, _HAS_TEXT)
            .values(errors=excerpt.faults, line_text=None)
        ).rowcount
        for excerpt in excerpts
    )


def unfinished_imports(
    connection: Connection,
    *,
    workspace_id: WorkspaceId | None = None,
    website_ids: Collection[str] | None = None,
) -> list[UnfinishedImport]:
    """Return the imports that are not finished, oldest first, including those that have not
    started.

    workspace_id, website_ids: if set, only imports into this workspace or these websites.
    """
    c = imports.c
    query = (
        select(
            *_LISTED,
            workspaces.c.name.label("workspace"),
            websites.c.name.label("website"),
        )
        .join_from(imports, websites, c.website_id == websites.c.id)
        .join(workspaces, c.workspace_id == workspaces.c.id)
        .where(c.state.in_(UNFINISHED))
        .order_by(c.created_at, c.id)
    )
    if workspace_id is not None:
        query = query.where(c.workspace_id == workspace_id)
    if website_ids is not None:
        query = query.where(c.website_id.in_(website_ids))
    return [record_of(row, UnfinishedImport) for row in connection.execute(query)]


def finished_among(connection: Connection, import_ids: Collection[str]) -> Sequence[str]:
    """Return the subset of these imports that are finished, failed or cancelled."""
    c = imports.c
    query = select(c.id).where(c.id.in_(import_ids), c.state.not_in(UNFINISHED))
    return connection.execute(query).scalars().all()


def end(
    connection: Connection,
    unfinished: ImportJob,
    before: Collection[ImportState],
    state: ImportState,
    now_ms: int,
    error: str | None = None,
) -> bool:
    """End an import if it is in one of the states `before`. Returns whether it was.

    An import that was started keeps the summary of its dry run, unless it is cancelled. The mapping
    is not read, so this also works for one that cannot be read.
    """
    c = imports.c
    ended = (
        update(imports)
        .where(
            c.id == unfinished.id,
            c.workspace_id == unfinished.workspace_id,
            c.state.in_(before),
        )
        .values(state=state, error=error, updated_at=now_ms, finished_at=now_ms)
    )
    if connection.execute(ended).rowcount == 0:
        return False
    if before != STARTED:
        remove_summary(connection, unfinished.id)
    return True


def save_summary(connection: Connection, import_id: ImportId, summary: Mapping[str, Any]) -> None:
    """Replace the summary of an import's dry run."""
    remove_summary(connection, import_id)
    connection.execute(insert(import_summaries).values(import_id=import_id, summary=summary))


def remove_summary(connection: Connection, import_id: ImportId) -> None:
    connection.execute(delete(import_summaries).where(import_summaries.c.import_id == import_id))


def summary_of(connection: Connection, job: ImportJob) -> Any:
    """Return the summary of an import's dry run, or None."""
    c = import_summaries.c
    return connection.execute(select(c.summary).where(c.import_id == job.id)).scalar()


def summaries(
    connection: Connection,
    website_ids: Collection[str],
    earlier: Collection[ImportId] | None = None,
) -> Iterator[tuple[ImportId, Any]]:
    """Yield the summaries of these websites' dry runs, with the IDs of their imports.

    earlier: if set, yields only those of these imports, and of unfinished imports.
    """
    c = imports.c
    query = (
        select(c.id, import_summaries.c.summary)
        .join_from(imports, import_summaries, c.id == import_summaries.c.import_id)
        .where(c.website_id.in_(website_ids))
    )
    if earlier is not None:
        query = query.where(or_(c.id.in_(earlier), c.state.in_(UNFINISHED)))
    for import_id, summary in connection.execute(query):
        yield ImportId(import_id), summary


def gaps(
    connection: Connection, workspace_id: WorkspaceId, website_ids: Collection[str]
) -> list[Gap]:
    """Return the gap of each import, oldest import first. Imports without events are omitted."""
    parameters = {"workspace": workspace_id, "websites": list(website_ids)}
    rows = connection.execute(_WITH_EVENTS, parameters)
    return [record_of(row, ImportJob).gap for row in rows]
