"""Records whose name is unique in their workspace, such as goals, segments and saved mappings.

A service of such records declares its table, its bodies and its record, and inherits how they are
created, read, changed and deleted. The table has the columns `id`, `workspace_id`, `name`,
`created_at` and `updated_at`, `revision` if the records have revisions, and columns for the
content.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Table

from penstock.base.clock import Clock, iso
from penstock.base.errors import NotFound
from penstock.base.ids import WorkspaceId, new_id
from penstock.base.paging import Listing, Page
from penstock.http.bodies import parse_model
from penstock.http.read_only import ReadOnlyFields, check_revision
from penstock.http.schema import Input, Record
from penstock.metadb.database import Database
from penstock.metadb.named import (
    add_named,
    change_named,
    check_number,
    delete_named,
    named_page,
    named_record,
    unique_name,
)

R = TypeVar("R", bound=Record)
M = TypeVar("M", bound=BaseModel)


class NamedRecords(Generic[R]):
    """Base of a service that reads and adds records. Methods block: call them from a worker thread.

    model: the record, whose fields are columns. noun: noun for a record, such as `segment`. prefix:
    start of the IDs. maximum: maximum number of records in a workspace; None for any number. shown:
    conditions of the rows that are records; the others are being saved or deleted.
    """

    table: ClassVar[Table]
    model: ClassVar[type[Record]]
    noun: ClassVar[str]
    prefix: ClassVar[str]
    maximum: ClassVar[int | None] = None
    shown: ClassVar[tuple[ColumnElement[bool], ...]] = ()

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def read(self, workspace_id: WorkspaceId, body: bytes, model: type[M]) -> M:
        """Parse a body that creates or changes a record.

        Raises Malformed if it is not JSON, and Invalid with all faults if it breaks rules.
        """
        return parse_model(body, model, self._validation_context(workspace_id))

    def get(self, workspace_id: WorkspaceId, record_id: str) -> R:
        """Read a record. Raises NotFound if the workspace has no such record."""
        with self._database.read() as db:
            return self.record_of(self._row(db, workspace_id, record_id))

    def page(self, workspace_id: WorkspaceId, page: Page, search: str = "") -> Listing[R]:
        """Return a page of records, newest first.

        search: text that the name must contain, ignoring case.
        """
        with self._database.read() as db:
            rows, total = named_page(db, self.table, workspace_id, page, search, *self.shown)
        return Listing([self.record_of(row._mapping) for row in rows], page, total)

    @classmethod
    def record_of(cls, row: Mapping[Any, Any]) -> R:
        """Return the record of a row."""
        times = {name: iso(row[name]) for name in ("created_at", "updated_at")}
        values = {name: row[name] for name in cls.model.model_fields}
        return cast("R", cls.model.model_validate(values | times))

    @classmethod
    def too_many_code(cls) -> str:
        """Return the code of the error for too many records, such as `too_many_segments`."""
        return f"too_many_{cls.noun.split()[-1]}s"

    def _validation_context(self, workspace_id: WorkspaceId) -> object:
        """Return what the validators of a body need."""

    def _insert(self, workspace_id: WorkspaceId, name: str, **columns: object) -> Mapping[str, Any]:
        """Add a row, and return it with its ID and times.

        Raises Conflict if the name is taken or the workspace has the maximum number of records.
        """
        now_ms = self._clock()
        row = {"id": new_id(self.prefix, now_ms), "name": name, **columns}
        row |= {"created_at": now_ms, "updated_at": now_ms}
        with unique_name(self.noun, name), self._database.write() as db:
            if self.maximum is not None:
                nouns = f"{self.noun}s"
                code = self.too_many_code()
                check_number(db, self.table, workspace_id, self.maximum, nouns, code=code)
            add_named(db, self.table, workspace_id, row)
        return row

    def _find(
        self, db: Connection, workspace_id: WorkspaceId, record_id: str, *, hold: bool = False
    ) -> Mapping[Any, Any] | None:
        """Read a row, if it exists. hold: whether to lock it until the transaction ends."""
        row = named_record(db, self.table, workspace_id, record_id, *self.shown, hold=hold)
        return None if row is None else row._mapping

    def _row(
        self, db: Connection, workspace_id: WorkspaceId, record_id: str, *, hold: bool = False
    ) -> Mapping[Any, Any]:
        """Like `_find`. Raises NotFound if the workspace has no such record."""
        row = self._find(db, workspace_id, record_id, hold=hold)
        if row is None:
            raise NotFound(f"There is no such {self.noun} in this workspace.")
        return row


class RevisedRecords(NamedRecords[R]):
    """Base of a service of records with revisions, which also creates, changes and deletes them.

    new, changes: the bodies that create and change a record; both have the field `name`.
    revises_names: whether another name is also a new revision, as other content is.

    For the routes: path: path of all records. tag: their group in the API reference. on_create,
    on_change, on_delete: descriptions of these routes there. create_summary: summary of the first,
    if it is not like `Create a segment`. validated_by: name of the service whose `read` parses the
    bodies; empty for this one.
    """

    new: ClassVar[type[Input]]
    changes: ClassVar[type[Input]]
    revises_names: ClassVar[bool] = False
    path: ClassVar[str]
    tag: ClassVar[str]
    create_summary: ClassVar[str] = ""
    validated_by: ClassVar[str] = ""
    on_create: ClassVar[str]
    on_change: ClassVar[str]
    on_delete: ClassVar[str]

    def create(self, workspace_id: WorkspaceId, body: Any) -> R:
        """Add a record. body: of type `new`.

        Raises Conflict if the name is taken or the workspace has the maximum number of records.
        """
        columns = self._columns(body)
        return self.record_of(self._insert(workspace_id, body.name, revision=1, **columns))

    def change(
        self, workspace_id: WorkspaceId, record_id: str, body: Any, read_only: ReadOnlyFields
    ) -> R:
        """Change the fields that are sent. The revision increases only with other content.

        body: of type `changes`. Raises NotFound, Invalid if a read-only field differs from its
        stored value, and Conflict if the name is taken or a record in use would be renamed.
        """
        with unique_name(self.noun, body.name or ""), self._database.write() as db:
            saved = self._row(db, workspace_id, record_id, hold=True)
            read_only.check(self.record_of(saved))
            name = body.name or saved["name"]
            if name != saved["name"]:
                self._check_use(db, record_id, "renamed")
            sent = self._columns(body)
            changed = {column: value for column, value in sent.items() if value != saved[column]}
            if not changed and name == saved["name"]:
                return self.record_of(saved)
            is_revised = bool(changed) or self.revises_names
            changed |= {"name": name, "revision": saved["revision"] + is_revised}
            changed["updated_at"] = self._clock()
            change_named(db, self.table, record_id, changed)
        return self.record_of({**saved, **changed})

    def delete(
        self, workspace_id: WorkspaceId, record_id: str, revision: int | None = None
    ) -> None:
        """Delete a record.

        revision: the only one to delete; None deletes any. Raises NotFound, and Conflict if the
        record has another revision or is in use.
        """
        with self._database.write() as db:
            row = self._row(db, workspace_id, record_id, hold=True)
            check_revision(revision, row["revision"])
            self._check_use(db, record_id, "deleted")
            delete_named(db, self.table, record_id)

    def _check_use(self, db: Connection, record_id: str, action: str) -> None:
        """Raise Conflict if something uses the record. action: `renamed` or `deleted`."""

    def _columns(self, body: Any) -> dict[str, Any]:
        """Return the columns of the content that a body sends. body: of type `new` or `changes`."""
        raise NotImplementedError
