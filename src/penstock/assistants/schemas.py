"""JSON Schemas of tools' arguments, from the models of the API."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from penstock.assistants.calls import Json
from penstock.funnels.questions import FunnelQuestion
from penstock.http.openapi import query_schemas

Questions = Sequence[FunnelQuestion[Any, Any]]


def schema_of(
    properties: Mapping[str, Any], required: Iterable[str], definitions: Json | None = None
) -> Json:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
        **({"$defs": definitions} if definitions else {}),
    }


def short(rule: Any) -> Any:
    """Return a schema without what only costs tokens: titles, defaults and null."""
    if isinstance(rule, list):
        return [short(part) for part in rule if part != {"type": "null"}]
    if not isinstance(rule, dict):
        return rule
    smaller = {
        key: {name: short(each) for name, each in value.items()}
        if key in ("properties", "$defs")
        else short(value)
        for key, value in rule.items()
        if key not in ("title", "default")
    }
    if len(smaller.get("anyOf", ())) == 1:
        smaller |= smaller.pop("anyOf")[0]
    return smaller


def parameters_of(query: type[BaseModel] | None) -> tuple[Json, list[str]]:
    """Return the schemas of query parameters, and the names of the required ones.

    Parameters that are JSON in a URL may also be sent as they are.
    """
    if query is None:
        return {}, []
    rules, required = query_schemas(query)
    by_name = {name: short(rule) for name, rule in rules.items()}
    for rule in by_name.values():
        if rule.pop("contentMediaType", None):
            rule["type"] = ["array", "object", "string"]
    return by_name, required


def parameters_of_all(rows: Questions) -> Json:
    """Return the schemas of the parameters of all questions. A parameter that not all questions
    have, or that means something else for some, says so.
    """
    by_name: dict[str, dict[str, Json]] = {}
    for row in rows:
        for name, rule in parameters_of(row.query)[0].items():
            by_name.setdefault(name, {})[row.path] = rule
    return {name: _joined(rules, len(rows)) for name, rules in by_name.items()}


def _joined(rules: Mapping[str, Json], count: int) -> Json:
    """Join the schemas of a parameter, by question. count: number of all questions."""
    texts: dict[str, list[str]] = {}
    shapes = []
    for path, rule in rules.items():
        shape = {key: value for key, value in rule.items() if key != "description"}
        texts.setdefault(rule.get("description", ""), []).append(path)
        if shape not in shapes:
            shapes.append(shape)
    only = f"Only for {', '.join(rules)}. " if len(rules) < count else ""
    description = " ".join(
        text if len(texts) == 1 else f"{', '.join(paths)}: {text}" for text, paths in texts.items()
    )
    shape = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    return {"description": f"{only}{' '.join(description.split())}", **shape}


def about_questions(rows: Questions) -> str:
    """Return a line about each question: what its answer is, and the parameters that it needs."""
    lines = []
    for row in rows:
        text = " ".join((row.answer.__doc__ or "").split())
        required = parameters_of(row.query)[1]
        needs = f" Needs {', '.join(required)}." if required else ""
        lines.append(f"{row.path}: {text}{needs}")
    return "\n".join(lines)
