"""HTTP of the catalogue."""

from typing import Any

from anyio import to_thread
from litestar import Request, Response, get
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.catalogue.schema import NameRecord, NamesQuery, PropertiesQuery, PropertyRecord, ValuesQuery, ValuesRecord
from penstock.catalogue.service import CatalogueService
from penstock.http.answers import answer, listing
from penstock.http.bodies import read_query
from penstock.http.openapi import described

AnyRequest = Request[Any, Any, Any]


@get("/api/schema/events", opt=described("Names seen", answers=NameRecord, query=NamesQuery, listed=True, tag="schema"))
async def list_seen_names(
    request: AnyRequest, caller: NamedDependency[Caller], catalogue: NamedDependency[CatalogueService]
) -> Response[bytes]:
    """Paths, screens and names of the events that were taken in, the commonest first."""
    return listing(await to_thread.run_sync(catalogue.names, caller.workspace_id, read_query(request, NamesQuery)))


@get("/api/schema/properties", opt=described("Properties seen", answers=PropertyRecord, query=PropertiesQuery, listed=True, tag="schema"))
async def list_seen_properties(
    request: AnyRequest, caller: NamedDependency[Caller], catalogue: NamedDependency[CatalogueService]
) -> Response[bytes]:
    """Properties of the events that were taken in and built-in fields, the commonest first, with the JSON types of their values."""
    return listing(await to_thread.run_sync(catalogue.properties, caller.workspace_id, read_query(request, PropertiesQuery)))


@get("/api/schema/values", opt=described("Values seen", answers=ValuesRecord, query=ValuesQuery, tag="schema"))
async def list_seen_values(
    request: AnyRequest, caller: NamedDependency[Caller], catalogue: NamedDependency[CatalogueService]
) -> Response[bytes]:
    """The commonest values of a property or built-in field, up to 100 of each JSON type. Values over 256 bytes are not listed."""
    return answer(await to_thread.run_sync(catalogue.values, caller.workspace_id, read_query(request, ValuesQuery)))


ROUTES = (list_seen_names, list_seen_properties, list_seen_values)
