"""Arranges the OpenAPI document for the reference page: operations by tag, and shared schemas."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]
TypeText = Sequence[tuple[str, str | None]]
"""A type in words. Each pair consists of a text and the schema that it links to, or None."""

_REF_PREFIX = "#/components/schemas/"
_FORMATS = {"uri": "URL", "email": "email address", "date-time": "time", "password": "password"}


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: TypeText
    required: bool
    description: str


@dataclass(frozen=True, slots=True)
class Shape:
    """An object with a name, used in requests and responses."""

    name: str
    description: str
    fields: Sequence[Field]


@dataclass(frozen=True, slots=True)
class Operation:
    """A route, as the reference page shows it.

    open: whether it needs neither an API key nor a session. status: HTTP status of a success.
    media: media type of the body.
    """

    anchor: str
    method: str
    path: str
    summary: str
    description: str
    open: bool
    parameters: Sequence[tuple[str, Field]]
    media: str
    body_text: str
    body: Sequence[Field]
    status: str
    answer: TypeText


@dataclass(frozen=True, slots=True)
class Reference:
    version: str
    groups: Mapping[str, Sequence[Operation]]
    shapes: Sequence[Shape]


def reference(document: Mapping[str, Any]) -> Reference:
    """Build the content of the reference page. document: from `openapi_document`."""
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    groups: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(
                _operation(path, method, operation, schemas)
            )
    shapes = [
        Shape(name, _text(schema), _fields(schema, schemas))
        for name, schema in sorted(schemas.items())
        if schema.get("properties")
    ]
    return Reference(document["info"]["version"], dict(sorted(groups.items())), shapes)


def _operation(
    path: str, method: str, operation: Schema, schemas: Mapping[str, Schema]
) -> Operation:
    status = next(code for code in operation["responses"] if code.startswith("2"))
    media, body = _content(operation.get("requestBody", {}))
    return Operation(
        anchor=f"{method}-{path.strip('/').replace('/', '-').replace('{', '').replace('}', '')}",
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=operation.get("description", ""),
        open=operation.get("security") in ([], [{}, {"key": []}]),
        parameters=[
            (parameter["in"], _parameter(parameter, schemas))
            for parameter in operation["parameters"]
        ],
        media=media,
        body_text=_text(schemas[_name(body)]) if "$ref" in body else _text(body),
        body=sorted(_fields(body, schemas), key=lambda field: not field.required),
        status=status,
        answer=_answer(_content(operation["responses"][status])[1], schemas),
    )


def _answer(schema: Schema, schemas: Mapping[str, Schema]) -> TypeText:
    """Return the type of a response, or of one page of a list."""
    if "data" in schema.get("properties", {}):
        return [("A page with a", None), *_type(schema["properties"]["data"], schemas)]
    return _type(schema, schemas) if schema else []


def _content(part: Schema) -> tuple[str, Schema]:
    """Return the media type and schema of a request or response body; both are empty if there is no
    body.
    """
    return next(
        ((media, content["schema"]) for media, content in part.get("content", {}).items()), ("", {})
    )


def _parameter(parameter: Schema, schemas: Mapping[str, Schema]) -> Field:
    text = parameter.get("description", "")
    return Field(
        parameter["name"],
        _type(parameter["schema"], schemas),
        parameter["required"],
        _add_default(text, parameter["schema"]),
    )


def _fields(schema: Schema, schemas: Mapping[str, Schema]) -> Sequence[Field]:
    """Return the fields of an object, or one entry for each member of a union."""
    if "$ref" in schema:
        return _fields(schemas[_name(schema)], schemas)
    members = schema.get("anyOf") or schema.get("oneOf")
    if members:
        return [Field("", _type(member, schemas), False, "") for member in members]
    required = schema.get("required", ())
    return [
        Field(name, _type(rule, schemas), name in required, _add_default(_text(rule), rule))
        for name, rule in schema.get("properties", {}).items()
    ]


def _name(schema: Schema) -> str:
    name: str = schema["$ref"].removeprefix(_REF_PREFIX)
    return name


def _text(schema: Schema) -> str:
    text: str = schema.get("description", "")
    return text


def _add_default(text: str, rule: Schema) -> str:
    default = rule.get("default")
    return (
        text if default in (None, "", [], {}) else f"{text} Default: {json.dumps(default)}.".strip()
    )


def _type(schema: Schema, schemas: Mapping[str, Schema]) -> TypeText:
    if "$ref" in schema:
        name = _name(schema)
        return [(name, name)] if schemas[name].get("properties") else _type(schemas[name], schemas)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _join_types([_type(member, schemas) for member in schema[key]])
    if "const" in schema:
        return [(json.dumps(schema["const"]), None)]
    if "enum" in schema:
        return _join_types([[(json.dumps(value), None)] for value in schema["enum"]])
    if schema.get("type") == "array":
        return [("list of ", None), *_type(schema.get("items", {}), schemas)]
    return [(_plain_type(schema), None)]


def _join_types(types: Iterable[TypeText]) -> TypeText:
    runs: list[tuple[str, str | None]] = []
    for words in types:
        runs += [(" or ", None), *words] if runs else words
    return runs


def _plain_type(schema: Schema) -> str:
    kind = schema.get("type", "any value")
    name = _FORMATS.get(schema.get("format", ""), "true or false" if kind == "boolean" else kind)
    minimum = schema.get("minimum", schema.get("minLength"))
    maximum = schema.get("maximum", schema.get("maxLength"))
    unit = " characters" if kind == "string" else ""
    if minimum is not None and maximum is not None:
        return f"{name}, {minimum} to {maximum}{unit}"
    if maximum is not None:
        return f"{name}, at most {maximum}{unit}"
    return name if minimum is None else f"{name}, at least {minimum}{unit}"
