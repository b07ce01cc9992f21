"""HTTP of the catalogue."""

from functools import partial
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.catalogue.schema import NameRecord, NamesQuery, PropertiesQuery, PropertyRecord, ValuesQuery, ValuesRecord
from penstock.catalogue.service import CatalogueService
from penstock.http.answers import listing
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.jobs.answered import Answered
from penstock.jobs.records import JobRecord

AnyRequest = Request[Any, Any, Any]


@get("/api/schema/events", opt=described("Names seen", answers=NameRecord, query=NamesQuery, listed=True, later=JobRecord, tag="schema"))
async def list_seen_names(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    catalogue: NamedDependency[CatalogueService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Paths, screens and names of the events that were taken in, the commonest first."""
    query = read_query(request, NamesQuery)
    return await answered(lambda: listing(catalogue.names(caller.workspace_id, query)))


@get(
    "/api/schema/properties",
    opt=described("Properties seen", answers=PropertyRecord, query=PropertiesQuery, listed=True, later=JobRecord, tag="schema"),
)
async def list_seen_properties(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    catalogue: NamedDependency[CatalogueService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """Properties of the events that were taken in and built-in fields, the commonest first, with the JSON types of their values."""
    query = read_query(request, PropertiesQuery)
    return await answered(lambda: listing(catalogue.properties(caller.workspace_id, query)))


@get("/api/schema/values", opt=described("Values seen", answers=ValuesRecord, query=ValuesQuery, later=JobRecord, tag="schema"))
async def list_seen_values(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    catalogue: NamedDependency[CatalogueService],
    answered: NamedDependency[Answered],
) -> Response[bytes]:
    """The commonest values of a property or built-in field, up to 100 of each JSON type. Values over 256 bytes are not listed."""
    return await answered(partial(catalogue.values, caller.workspace_id, read_query(request, ValuesQuery)))


ROUTES = (list_seen_names, list_seen_properties, list_seen_values)
