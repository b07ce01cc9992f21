"""HTTP routes for the catalogue."""

from functools import partial

from litestar import Response, get
from litestar.di import NamedDependency

from penstock.accounts.model import Caller
from penstock.catalogue.schema import (
    NameRecord,
    NamesQuery,
    PropertiesQuery,
    PropertyRecord,
    ValuesQuery,
    ValuesRecord,
)
from penstock.catalogue.service import CatalogueService
from penstock.http.answers import listing
from penstock.http.bodies import read_query
from penstock.http.openapi import described
from penstock.http.requests import AnyRequest
from penstock.jobs.cancellable import CancellableResponse
from penstock.jobs.schema import JobRecord


@get(
    "/api/schema/events",
    opt=described(
        "Event names",
        answers=NameRecord,
        query=NamesQuery,
        listed=True,
        job=JobRecord,
        tag="schema",
    ),
)
async def list_seen_names(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    catalogue: NamedDependency[CatalogueService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """List paths, screens and names of accepted events, most frequent first."""
    query = read_query(request, NamesQuery)
    return await respond(lambda: listing(catalogue.names(caller.workspace_id, query)))


@get(
    "/api/schema/properties",
    opt=described(
        "Event properties",
        answers=PropertyRecord,
        query=PropertiesQuery,
        listed=True,
        job=JobRecord,
        tag="schema",
    ),
)
async def list_seen_properties(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    catalogue: NamedDependency[CatalogueService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """List properties and built-in fields of accepted events, with types, most frequent first."""
    query = read_query(request, PropertiesQuery)
    return await respond(
        lambda: listing(catalogue.properties(caller.workspace_id, query, caller.website_id))
    )


@get(
    "/api/schema/values",
    opt=described(
        "Property values", answers=ValuesRecord, query=ValuesQuery, job=JobRecord, tag="schema"
    ),
)
async def list_seen_values(
    request: AnyRequest,
    caller: NamedDependency[Caller],
    catalogue: NamedDependency[CatalogueService],
    respond: NamedDependency[CancellableResponse],
) -> Response[bytes]:
    """List the most frequent values of a property or built-in field, up to 100 per JSON type.

    Values over 256 bytes are omitted.
    """
    query = read_query(request, ValuesQuery)
    return await respond(partial(catalogue.values, caller.workspace_id, query, caller.website_id))


ROUTES = (list_seen_names, list_seen_properties, list_seen_values)
