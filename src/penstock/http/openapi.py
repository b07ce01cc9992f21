"""The OpenAPI document, built from the `Description` of each route (`penstock.http.handlers`)."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from litestar import HttpMethod, Litestar
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from penstock import __version__
from penstock.http.schema import Query
from penstock.http.scopes import KeyScope

_READ_ONLY = "Read-only: leave it out, or send the value that the API returned."
_REF = "#/components/schemas/{model}"
_OWN_ACCOUNT = "/api/auth/"
"""Beginning of the paths of routes for the user's own account."""
_PROBLEM_TEXTS = ("type", "title", "code", "detail", "instance")


class Header(NamedTuple):
    """An optional request header. values: allowed values; empty if any text is allowed."""

    name: str
    meaning: str
    values: tuple[str, ...] = ()


_PREFER = Header("Prefer", "`respond-async` returns a job instead of the result (RFC 7240).")


JSON_ONLY = ("application/json",)


class Description(NamedTuple):
    """A route in the document.

    listed: the response is a page of `answers`. open_to_all: needs neither an API key nor a
    session. optional_key: checks an API key if one is sent. only_key: does not accept a session.
    needs_session: does not accept an API key, which does not identify a user. headers: optional
    headers. is_body_optional: a request may have no body. takes_read_only: the body may repeat
    fields that only `answers` has. media: media types of the body; `body` describes the first, and
    the others are text. returns: media types of the response; without `answers`, its content is not
    described. job: the job record that `Prefer: respond-async` returns. scopes: an API key needs
    one of these, and a viewer `read`; by default `read` for GET and `manage` for other methods.
    """

    summary: str
    tag: str
    name: str
    text: str
    body: type[BaseModel] | None = None
    answers: type[BaseModel] | None = None
    query: type[Query] | None = None
    listed: bool = False
    open_to_all: bool = False
    optional_key: bool = False
    only_key: bool = False
    needs_session: bool = False
    headers: tuple[Header, ...] = ()
    is_body_optional: bool = False
    takes_read_only: bool = False
    media: tuple[str, ...] = JSON_ONLY
    returns: tuple[str, ...] = JSON_ONLY
    job: type[BaseModel] | None = None
    scopes: tuple[KeyScope, ...] = ()


def description_of(handler: BaseRouteHandler) -> Description | None:
    """Return the description of a route; None for a route that is not in the document."""
    description: Description | None = handler.opt.get("description")
    return description


@lru_cache(maxsize=4)
def openapi_document_of(app: Litestar) -> dict[str, Any]:
    """Return the document of all described routes of an application.

    It is cached, because computing it takes a quarter of a second. Do not change it.
    """
    routes = (
        (route.path_format, handler)
        for route in app.routes
        for handler in getattr(route, "route_handlers", ())
    )
    return openapi_document(routes, __version__)


def openapi_document(
    handlers: Iterable[tuple[str, HTTPRouteHandler]], version: str
) -> dict[str, Any]:
    """Build the whole document. handlers: pairs of a path, such as `/api/funnels/{id}`, and its
    handler.
    """
    entries = [  # Sort the routes, so that an operation has the same ID after every start.
        (path, handler, description)
        for path, handler in sorted(handlers, key=lambda entry: entry[0])
        if (description := description_of(handler)) is not None
    ]
    inputs = {entry.body for _, _, entry in entries if entry.body}
    outputs = {kind for _, _, entry in entries for kind in (entry.answers, entry.job) if kind}
    models: list[Any] = [
        *((model, "validation") for model in inputs),
        *((model, "serialization") for model in outputs),
    ]
    models.sort(key=lambda pair: (pair[0].__name__, pair[1]))
    names, definitions = models_json_schema(models, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    numbers = Counter[HTTPRouteHandler]()
    for path, handler, entry in entries:
        for method in handler.http_methods - {HttpMethod.HEAD}:  # HEAD works like GET
            operation = _operation(path, handler, entry, names, definitions.get("$defs", {}))
            numbers[handler] += 1
            if numbers[handler] > 1:  # the same handler serves another path
                operation["operationId"] += f"_{numbers[handler]}"
            paths.setdefault(path, {})[str(method).lower()] = operation
    _add_links(paths)
    problem = {
        "type": "object",
        "description": "RFC 9457 problem document",
        "required": [*_PROBLEM_TEXTS, "status"],
        "properties": {
            **{name: {"type": "string"} for name in (*_PROBLEM_TEXTS, "requestId")},
            "status": {"type": "integer"},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        name: {"type": "string"} for name in ("field", "code", "message")
                    },
                },
            },
            "moreErrors": {
                "type": "integer",
                "description": "Number of errors that are not in `errors`.",
            },
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": version,
            "description": "Conversion funnels, managed mobile links and server events.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**definitions.get("$defs", {}), "Problem": problem},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "A workspace API key."},
                "session": {"type": "apiKey", "in": "cookie", "name": "service_session"},
            },
        },
        "security": [{"key": []}, {"session": []}],
    }


def _inline(rule: Any, definitions: dict[str, Any]) -> Any:
    """Return the schema with its references replaced by their targets, without the names of
    enums.
    """
    if isinstance(rule, list):
        return [_inline(part, definitions) for part in rule]
    if not isinstance(rule, dict):
        return rule
    if "$ref" in rule:
        target = definitions[rule["$ref"].rpartition("/")[2]]
        return {
            **{key: target[key] for key in ("enum", "type") if key in target},
            **{key: rule[key] for key in rule if key != "$ref"},
        }
    return {key: _inline(part, definitions) for key, part in rule.items()}


def query_schemas(query: type[BaseModel]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the JSON Schema of each query parameter, without references, and the names of the
    required ones.
    """
    schema = query.model_json_schema()
    definitions = schema.get("$defs", {})
    rules = {name: _inline(rule, definitions) for name, rule in schema["properties"].items()}
    return rules, schema.get("required", [])


def _operation(
    path: str,
    handler: HTTPRouteHandler,
    entry: Description,
    names: dict[Any, Any],
    schemas: dict[str, Any],
) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for part in path.split("/")
        if part.startswith("{")
    ]
    if entry.query:
        schemas_by_name, required = query_schemas(entry.query)
        for name, rule in schemas_by_name.items():
            text = {"description": rule.pop("description")} if "description" in rule else {}
            parameters.append(
                {"name": name, "in": "query", "required": name in required, **text, "schema": rule}
            )
    for header in (*entry.headers, *([_PREFER] if entry.job else [])):
        values = {"enum": list(header.values)} if header.values else {}
        parameters.append(
            {
                "name": header.name,
                "in": "header",
                "required": False,
                "description": header.meaning,
                "schema": {"type": "string", **values},
            }
        )
    success: dict[str, Any] = {"description": "Success"}
    if entry.answers:
        shape = names[(entry.answers, "serialization")]
        if entry.listed:
            shape = {
                "type": "object",
                "required": ["data", "page", "pageSize", "total"],
                "properties": {
                    "data": {"type": "array", "items": shape},
                    **{name: {"type": "integer"} for name in ("page", "pageSize", "total")},
                },
            }
        success["content"] = {media: {"schema": shape} for media in entry.returns}
    elif handler.status_code != 204:
        success["content"] = {media: {"schema": {}} for media in entry.returns}
    operation: dict[str, Any] = {
        "summary": entry.summary,
        "tags": [entry.tag],
        "operationId": entry.name,
        "parameters": parameters,
        "responses": {
            str(handler.status_code): success,
            "4XX": _problem("Error, as a problem document"),
            "503": _problem("Too much work, or a store cannot be reached; try again"),
        },
    }
    if entry.job:
        shape = names[(entry.job, "serialization")]
        operation["responses"]["202"] = {
            "description": "A job, if the client preferred one; its URL is in `Location`",
            "content": {"application/json": {"schema": shape}},
        }
    if entry.text:
        operation["description"] = entry.text
    if entry.body:
        shape = names[(entry.body, "validation")]
        if entry.takes_read_only:
            record = names[(entry.answers, "serialization")]
            shape = _add_read_only(_target(shape, schemas), _target(record, schemas))
        operation["requestBody"] = {
            "required": not entry.is_body_optional,
            "content": {
                media: {"schema": {"type": "string"} if number else shape}
                for number, media in enumerate(entry.media)
            },
        }
    if entry.open_to_all:
        operation["security"] = [{}, {"key": []}] if entry.optional_key else []
    else:
        method = next(iter(handler.http_methods - {HttpMethod.HEAD}))
        scopes = () if entry.needs_session else scopes_of(entry, method)
        roles = [] if is_open_to_viewers(path, entry, method) else ["member"]
        sessions: list[dict[str, list[str]]] = [] if entry.only_key else [{"session": roles}]
        operation["security"] = [*({"key": [scope.value]} for scope in scopes), *sessions]
    return operation


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(model="Problem")}
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": schema}},
    }


def _add_links(paths: dict[str, dict[str, Any]]) -> None:
    """Link each route that creates a record to the routes that take its ID in the path."""
    for path, methods in paths.items():
        responses = methods.get("post", {}).get("responses", {})
        if "201" not in responses:
            continue
        links = {
            operation["operationId"]: {
                "operationId": operation["operationId"],
                "parameters": {parameter: "$response.body#/id"},
            }
            for other, operations in paths.items()
            if other.startswith(f"{path}/{{")
            for operation in operations.values()
            for parameter in [other.removeprefix(f"{path}/{{").partition("}")[0]]
        }
        if links:
            responses["201"]["links"] = links


def _target(reference: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = schemas[reference["$ref"].rpartition("/")[2]]
    return schema


def _add_read_only(body: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body that may repeat fields that only the record has."""
    read_only = {
        name: {**rule, "readOnly": True, "description": _READ_ONLY}
        for name, rule in record["properties"].items()
        if name not in body["properties"]
    }
    return {**body, "properties": {**body["properties"], **read_only}}


def scopes_of(description: Description | None, method: str) -> tuple[KeyScope, ...]:
    """Return the scopes that allow a request. A key needs only one of them. The default depends on
    the method.
    """
    if description is not None and description.scopes:
        return description.scopes
    return (KeyScope.READ,) if method in ("GET", "HEAD") else (KeyScope.MANAGE,)


def is_open_to_viewers(path: str, description: Description | None, method: str) -> bool:
    """Whether a user who may only read can use a route: it reads, or is for their own account."""
    return KeyScope.READ in scopes_of(description, method) or path.startswith(_OWN_ACCOUNT)
