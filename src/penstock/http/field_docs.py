"""Docstrings of fields, which the OpenAPI document shows as their descriptions.

    created_at: Iso
    \"\"\"Events received later are not deleted.\"\"\"

Python does not keep these docstrings, so they are read from the source, and only for the document.
"""

import ast
import sys
from collections.abc import Mapping
from functools import cache
from inspect import getsource

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class DocumentedFields(BaseModel):
    """Base of models whose fields may have docstrings."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        reference = handler(schema)
        properties = handler.resolve_ref_schema(reference).get("properties", {})
        for name, text in _field_docs(cls).items():
            field = cls.model_fields[name]
            for key in {name, field.alias, field.serialization_alias} & properties.keys():
                properties[key]["description"] = text
        return reference


def _field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields, including inherited fields, by name."""
    docs = dict[str, str | None]()
    for each in reversed(model.__mro__):
        if issubclass(each, DocumentedFields):
            docs |= _docs_of_module(each.__module__).get(each.__name__, {})
    return {name: text for name, text in docs.items() if text is not None}


@cache
def _docs_of_module(name: str) -> Mapping[str, Mapping[str, str | None]]:
    """Return the docstrings of the fields of each class of a module; None for a field without."""
    classes = ast.parse(getsource(sys.modules[name])).body
    return {each.name: _docs_of_class(each) for each in classes if isinstance(each, ast.ClassDef)}


def _docs_of_class(definition: ast.ClassDef) -> Mapping[str, str | None]:
    docs = dict[str, str | None]()
    field = ""
    for statement in definition.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=field)):
                docs[field] = None
            case ast.Expr(value=ast.Constant(value=str(text))) if field:
                docs[field] = " ".join(text.split())
            case _:
                field = ""
    return docs
