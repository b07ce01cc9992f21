"""The pages of the API reference, made from the OpenAPI document of the routes."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

from penstock import __version__
from penstock.app import ROOMS
from penstock.http import routes as http_routes
from penstock.http.openapi import openapi_document
from penstock.web.reference import Field, Operation, Shape, TypeText, reference

EXAMPLES = Path(__file__).parent / "examples.json"
_FOLDER = Path("docs/reference")
_HEAD = """# API: {area}

Every route of the API in the area "{area}", with parameters, body, response and examples. [The
API](../api.md) explains keys, errors, paging and times. Routes marked open need no key. A running
service has the same reference at `/api/docs`, and the OpenAPI document at `/api/openapi.json`.
"""
_SHAPES_HEAD = """# API: schemas

Every object in requests and responses of the API, with its fields. [The API](../api.md) explains
the formats of times and IDs.
"""


@cache
def document() -> Mapping[str, Any]:
    """Return the OpenAPI document, built from the routes alone, without a service."""
    handlers = [
        (re.sub(r":\w+\}", "}", path), handler)
        for routes in (http_routes.ROUTES, *(room.routes for room in ROOMS))
        for handler in routes
        for path in handler.paths
    ]
    return openapi_document(handlers, __version__)


@cache
def reference_pages() -> Mapping[Path, str]:
    """Return a page for each area of the API and a page for the schemas, by path."""
    parts = reference(document())
    pages = {
        _FOLDER / f"{area.replace(' ', '-')}.md": _area_page(area, operations)
        for area, operations in parts.groups.items()
    }
    return pages | {_FOLDER / "schemas.md": "\n".join([_SHAPES_HEAD, *_shapes(parts.shapes)])}


def _area_page(area: str, operations: Sequence[Operation]) -> str:
    head = _HEAD.format(area=area)
    return "\n".join([head, *(line for operation in operations for line in _operation(operation))])


def _operation(operation: Operation) -> Iterator[str]:
    yield f"({operation.anchor})=\n"
    yield f"## {operation.summary}\n"
    open_to_all = ", open" if operation.open else ""
    yield f"`{operation.method} {operation.path}`{open_to_all}\n"
    if operation.description:
        yield f"{cleandoc(operation.description)}\n"
    if operation.parameters:
        yield "Parameters:\n"
        yield from [_field(field, f"{location}, ") for location, field in operation.parameters]
        yield ""
    if operation.body:
        yield f"Body: {cleandoc(operation.body_text)}\n" if operation.body_text else "Body:\n"
        yield from map(_field, operation.body)
        yield ""
    elif operation.body_text:
        yield f"Body: {cleandoc(operation.body_text)}\n"
    answer = f": {_type(operation.answer)}" if operation.answer else ""
    yield f"Response {operation.status}{answer}\n"
    example = _examples().get(f"{operation.method} {operation.path}")
    if example:
        yield from _example(example)


@cache
def _examples() -> Mapping[str, Mapping[str, Any]]:
    """Return the first example of each operation, such as `GET /api/goals/{goal_id}`."""
    examples = json.loads(EXAMPLES.read_text("utf-8"))
    return {example["operation"]: example for example in reversed(examples)}


def _example(example: Mapping[str, Any]) -> Iterator[str]:
    method = example["operation"].partition(" ")[0]
    headers = [f"{name}: {value}" for name, value in example.get("headers", {}).items()]
    yield "Example:\n"
    yield _block("text", "\n".join([f"{method} {example['address']}", *headers]))
    if example["body"] is not None:
        yield _content(example["body"])
    status = example["status"]
    if example["response"] is None:
        yield f"The response is {status}, without a body.\n"
        return
    if media_type := example.get("mediaType"):
        verb = "is" if example["isWhole"] else "begins with"
        yield f"The response is {status}, and its body (`{media_type}`) {verb}:\n"
    else:
        yield f"The response is {status}:\n"
    yield _content(example["response"])


def _content(body: Any) -> str:
    """Return a code block. A text is shown unchanged, everything else as JSON."""
    return _block("text", body) if isinstance(body, str) else _block("json", _indented(body))


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _shapes(shapes: Sequence[Shape]) -> Iterator[str]:
    for shape in shapes:
        yield f"(shape-{shape.name.lower()})=\n"
        yield f"## {shape.name}\n"
        if shape.description:
            yield f"{cleandoc(shape.description)}\n"
        yield from map(_field, shape.fields)
        yield ""


def _field(field: Field, location: str = "") -> str:
    """Format a field as one item of a list."""
    name = f"`{field.name}`: " if field.name else ""
    required = ", required" if field.required and not location.startswith("path") else ""
    meaning = f". {' '.join(field.description.split())}" if field.description else ""
    return f"- {name}{location}{_type(field.type)}{required}{meaning}"


def _type(runs: TypeText) -> str:
    return "".join(f"[{text}](#shape-{shape.lower()})" if shape else text for text, shape in runs)
