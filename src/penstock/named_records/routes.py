"""The routes of a kind of named records, made from its service."""

from collections.abc import Callable, Mapping
from typing import Any

from litestar.handlers import HTTPRouteHandler

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.http.handlers import route
from penstock.http.read_only import ReadOnlyFields
from penstock.http.schema import RevisionQuery, SearchQuery
from penstock.named_records.service import RevisedRecords

Records = RevisedRecords[Any]


def record_routes(services: Mapping[str, type[Records]]) -> list[HTTPRouteHandler]:
    """Make the routes that create, list, read, change and delete the records of services.

    services: by their names in the room, such as `segments`.
    """
    return [handler for name, service in services.items() for handler in _routes(name, service)]


def _routes(name: str, service: type[Records]) -> tuple[HTTPRouteHandler, ...]:
    """Make the routes of one service.

    The operations have names from the service, such as `create_segment` and `list_segments`. The ID
    in the path has its name from the noun, such as `segment_id`.
    """
    noun, nouns, singular = service.noun, f"{service.noun}s", name.removesuffix("s")
    id_name = f"{noun.split()[-1]}_id"
    list_path, record_path = service.path, f"{service.path}/{{{id_name}:str}}"
    record = service.model
    page_of_records = Listing[record]  # type: ignore[valid-type]
    # From the noun: `change_import_mapping` is the route that changes the mapping of an import.
    change_name = f"change_{noun.replace(' ', '_')}"
    options: dict[str, Any] = {
        "tag": service.tag,
        "validated_by": service.validated_by or name,
        "receives": {"records": name, "record_id": id_name},
    }

    @route("POST", list_path, service.create_summary or f"Create a {noun}", **options)
    @_described(f"create_{singular}", service.on_create, {"body": service.new, "return": record})
    def create(caller: Caller, records: Records, body: Any) -> Any:
        return records.create(caller.workspace_id, body)

    @route("GET", list_path, nouns.capitalize(), **options)
    @_described(f"list_{name}", f"List {nouns}, newest first.", {"return": page_of_records})
    def page(caller: Caller, records: Records, query: SearchQuery) -> Any:
        return records.page(caller.workspace_id, query.pagination, query.search)

    @route("GET", record_path, f"A {noun}", **options)
    @_described(f"read_{singular}", "", {"return": record})
    def read(caller: Caller, records: Records, record_id: str) -> Any:
        return records.get(caller.workspace_id, record_id)

    @route("PATCH", record_path, f"Change a {noun}", **options)
    @_described(change_name, service.on_change, {"body": service.changes, "return": record})
    def change(
        caller: Caller, records: Records, record_id: str, body: Any, read_only: ReadOnlyFields
    ) -> Any:
        return records.change(caller.workspace_id, record_id, body, read_only)

    @route("DELETE", record_path, f"Delete a {noun}", **options)
    @_described(f"delete_{singular}", service.on_delete)
    def delete(caller: Caller, records: Records, record_id: str, query: RevisionQuery) -> None:
        records.delete(caller.workspace_id, record_id, query.revision)

    return create, page, read, change, delete


def _described(
    name: str, text: str, types: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a function the name and description of an operation, and the types of a service."""

    def describe(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__name__, function.__doc__ = name, text
        function.__annotations__ |= types or {}
        return function

    return describe
