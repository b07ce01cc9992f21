"""Quick validation of plain items, in a single step implemented in C. Most items are plain.

A plain item has known fields of the right types, strings clearly within the limits, and simple
properties. Nothing is rejected here: an item that is not plain goes through the full validation,
which finds any faults. For a plain item, both validations return the same fields; a test compares
them with random items.
"""

from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, ValidationError, convert, defstruct
from pydantic import BaseModel

from penstock.events.fields import EventValidationContext, Plain
from penstock.http.schema import RuleBroken

_NUL, _RESERVED = b"\\u0000", b'"$'
"""JSON text of NUL, which strings must not contain, and of the start of a reserved property's
name.
"""


def plain_item(
    raw: Any, canonical: bytes, model: type[BaseModel], context: EventValidationContext
) -> Any | None:
    """Return an object with the model's fields for a plain item; None for any other item.

    canonical: the item's JSON.
    """
    if _NUL in canonical or _RESERVED in canonical:
        return None
    struct, reads, check = _reader(model)
    try:
        item = convert(raw, struct)
        for name, read in reads:
            if (value := getattr(item, name)) is not None:
                setattr(item, name, read(value, context))
        if check is not None:
            check(item, context)
    except (ValidationError, RuleBroken):
        return None
    return item


@lru_cache(maxsize=100)
def _reader(model: type[BaseModel]) -> tuple[type[Struct], Any, Any]:
    """Return the model's struct for msgspec, converters for its fields, and its own check."""
    fields: list[Any] = []
    reads = []
    hints = get_type_hints(model, include_extras=True)
    for name, info in model.model_fields.items():
        hint, read = _plain_type(hints[name])
        fields.append((name, hint) if info.is_required() else (name, hint | None, None))
        if read is not None:
            reads.append((name, read))
    aliases = {name: info.alias or name for name, info in model.model_fields.items()}
    struct = defstruct(
        f"Plain{model.__name__}",
        fields,
        rename=aliases,
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )
    return struct, tuple(reads), getattr(model, "check_between_fields", None)


def _plain_type(hint: Any) -> tuple[Any, Any]:
    """Return the msgspec type for a field's type, and the function that converts its value."""
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        # The last entry wins, because it may narrow earlier entries.
        for part in reversed(metadata):
            if isinstance(part, Plain):
                return part.plain_type, part.read
        return _plain_type(inner)
    if get_origin(hint) in (Union, UnionType):
        [inner] = [part for part in get_args(hint) if part is not NoneType]
        return _plain_type(inner)
    assert get_origin(hint) is Literal
    return hint, None
