"""HTTP routes for the catalogue."""

from penstock.accounts.model import Caller
from penstock.base.paging import Listing
from penstock.catalogue.schema import (
    NameRecord,
    NamesQuery,
    PropertiesQuery,
    PropertyRecord,
    ValuesQuery,
    ValuesRecord,
)
from penstock.catalogue.service import CatalogueService
from penstock.jobs.cancellable import slow_route


@slow_route("GET", "/api/schema/events", "Event names", tag="schema")
def list_seen_names(
    caller: Caller, catalogue: CatalogueService, query: NamesQuery
) -> Listing[NameRecord]:
    """List paths, screens and names of accepted events, most frequent first."""
    return catalogue.names(caller.workspace_id, query)


@slow_route("GET", "/api/schema/properties", "Event properties", tag="schema")
def list_seen_properties(
    caller: Caller, catalogue: CatalogueService, query: PropertiesQuery
) -> Listing[PropertyRecord]:
    """List properties and built-in fields of accepted events, with types, most frequent first."""
    return catalogue.properties(caller.workspace_id, query, caller.website_id)


@slow_route("GET", "/api/schema/values", "Property values", tag="schema")
def list_seen_values(
    caller: Caller, catalogue: CatalogueService, query: ValuesQuery
) -> ValuesRecord:
    """List the most frequent values of a property or built-in field, up to 100 per JSON type.

    Values over 256 bytes are omitted.
    """
    return catalogue.values(caller.workspace_id, query, caller.website_id)


ROUTES = (list_seen_names, list_seen_properties, list_seen_values)
